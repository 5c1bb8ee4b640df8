"""Observe the files that a step reads and the code that it runs, by an audit hook, and find whose code it was."""
