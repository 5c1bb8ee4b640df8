"""Run a plan in dependency order: attempts, commits.

In: a plan. ``scheduler`` hands attempts to a backend, ``attempt`` runs one step, and ``commit`` makes the output
visible in an order that no crash can spoil. Out: committed outputs, logs and the events of the run. A failure stops
only the steps that depend on it.
"""
