"""Sweeps: many runs that belong together, in one folder, resumable, compared by their validation scores."""
