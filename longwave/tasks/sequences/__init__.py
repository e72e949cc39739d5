"""What the tasks on custom sequences share: arrays and files, splits, predictions, plots."""
