"""Operators: the steps that experiments are made of, one verb a file."""
