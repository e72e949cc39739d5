"""Density of images: the next value of a pixel, to draw more."""
