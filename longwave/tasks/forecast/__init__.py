"""Forecasting: the rows that follow a time series."""
