"""Tagging: one label per step of a sequence."""
