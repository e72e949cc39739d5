"""Training of models on tasks."""
