"""Differences between two experiments, or two revisions of one: steps, fields, code, cost."""
