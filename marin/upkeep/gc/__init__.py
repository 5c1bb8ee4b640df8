"""``marin gc``: ``survey`` reads the store, ``select`` decides what may go, ``sweep`` deletes."""
