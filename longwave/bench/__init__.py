"""Benches of speed, memory and accuracy, one per file of this package."""
