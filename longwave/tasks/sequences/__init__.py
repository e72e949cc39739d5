"""Shared parts of tasks on custom sequences: arrays and files, splits, predictions, plots."""
