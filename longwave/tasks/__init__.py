"""Data: what a model is trained on. Tasks know nothing of models; training joins the two."""
