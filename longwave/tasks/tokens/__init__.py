"""Classification of token sequences: ListOps and film reviews."""
