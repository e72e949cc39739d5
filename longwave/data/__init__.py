"""What is on disk: files, downloads, archives, readers. Nothing here knows of models."""
