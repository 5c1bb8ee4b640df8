"""Decisions from families of runs: which value of a sweep is best, and what a ladder predicts for a large run."""
