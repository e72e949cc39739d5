"""Figures of arrays and layers, independent of tasks and runs."""
