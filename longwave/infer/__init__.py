"""Trained models at work: predict, forecast, classify, generate."""
