"""``marin mirror``: plan copies of outputs to another store, and copy them, every byte verified."""
