"""Sweeps: resumable sets of runs in one folder, compared by validation score."""
