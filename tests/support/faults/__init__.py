"""Faults at every operation of a driver on its store: a real process, killed or lied to by the system at the k-th one.

Nothing in the product knows of this: Python tells an audit hook of every file that is opened, renamed, linked,
listed or removed, before it happens, and the hook kills its process or raises the error that the system would give.
Remote stores do their work over sockets, so there every request that a store object makes is an operation.
"""
