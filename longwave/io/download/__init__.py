"""Public data sets: the catalogue, downloads that are verified, and sets that are generated here."""
