"""How it is done: one verb per file."""
