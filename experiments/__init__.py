"""What we ask: one file per GitHub issue."""
