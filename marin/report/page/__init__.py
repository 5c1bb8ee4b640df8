"""The page of a run: one HTML file that opens from disk. ``content`` collects, ``drawing`` draws."""
