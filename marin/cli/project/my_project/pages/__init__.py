"""Sections of an experiment's page, in modules with the names of the operators' modules."""
