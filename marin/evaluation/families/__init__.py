"""Decisions from families of runs: sweeps, ladders and mixture searches."""
