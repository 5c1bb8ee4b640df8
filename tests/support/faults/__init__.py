"""Faults at every operation of a driver on its store: a real process, killed or lied to by the system at the k-th one.

The product knows nothing of the faults. Python tells an audit hook before it opens, renames, links, lists or removes
a file. The hook kills its process or raises the error that the system would give.
Remote stores do their work over sockets, so there every request that a store object makes is an operation.
"""
