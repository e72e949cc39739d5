"""Shared basics: registries, settings, atomic files, locks, progress, random numbers."""
