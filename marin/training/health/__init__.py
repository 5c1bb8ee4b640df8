"""Check the health of a run: the independence of its batches, and its metrics."""
