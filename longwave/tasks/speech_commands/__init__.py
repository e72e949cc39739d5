"""Speech Commands: one spoken word per clip."""
