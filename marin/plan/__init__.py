"""The plan: a comparison of an experiment with a store. It has one decision for each step, with the reason.

Input: an experiment and a store. ``snapshot`` and ``facts`` read the store and today's code, data and inputs once.
``condition`` holds their findings about each step, and ``decision`` decides from these alone.
Output: a ``Plan`` that says which steps run and which are cached, why, and at which cost.
Planning starts nothing and writes nothing.
"""
