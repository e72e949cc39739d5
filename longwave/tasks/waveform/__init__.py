"""Waveforms: audio sample by sample, to generate more."""
