"""Maintenance of a store: garbage collection, mirroring to another store, adopting outside data.

Enters: a store and a request. Leaves: the same store with fewer outputs, another store with the same outputs, or an
adopted output.
"""
