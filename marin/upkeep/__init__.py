"""Looking after a store: garbage collection, mirroring to another store, adopting outside data.

Enters: a store and what somebody asks for. Leaves: the same store with less in it, another store with the same
outputs, or an adopted output.
"""
