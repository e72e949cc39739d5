"""Classification of pairs of documents."""
