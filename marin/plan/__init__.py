"""The plan: an experiment compared with a store, one decision a step, each with its reason.

Enters: an experiment and a store. ``snapshot`` and ``facts`` read the store once beside today's code, data and inputs;
``condition`` is what they found of a step, and ``decision`` says from that alone what happens. Leaves: a ``Plan`` with
what runs, what is cached, why, and what it costs. Nothing is started and nothing is written.
"""
