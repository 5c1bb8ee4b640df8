"""The plan: an experiment compared with a store, one decision a step, each with its reason.

Enters: an experiment and a store. ``snapshot`` reads the store once, ``condition`` compares each step's output with
today's code, data and inputs, ``decision`` says what happens. Leaves: a ``Plan`` with what runs, what is cached, why,
and what it costs. Nothing is started and nothing is written.
"""
