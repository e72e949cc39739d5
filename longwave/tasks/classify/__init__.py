"""Classification: one label per sequence."""
