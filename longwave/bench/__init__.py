"""The speed and memory tables, measured on the machine at hand."""
