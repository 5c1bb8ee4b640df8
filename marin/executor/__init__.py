"""Carries out a plan: leases, attempts, commits, in dependency order.

Enters: a plan. ``scheduler`` hands attempts to a backend, ``attempt`` runs one step, ``commit`` makes its output
visible in an order that no crash can spoil. Leaves: committed outputs, logs and the events of the run. What a failure
does not touch goes on.
"""
