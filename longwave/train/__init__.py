"""Training: what joins models and data."""
