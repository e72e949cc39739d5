"""Regression: one number or several per sequence."""
