"""``marin mirror``: what to copy to another store, and copying it, every byte verified."""
