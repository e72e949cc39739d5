"""Tasks: data, losses and scores, independent of models."""
