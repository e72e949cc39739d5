"""What every part needs: registries, settings, atomic files, locks, progress, random numbers."""
