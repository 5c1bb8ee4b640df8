"""The page of a run: one HTML file that opens from disk. ``collect`` reads, ``render`` draws, ``write`` stores it."""
