"""Language modelling: text byte by byte or word by word."""
