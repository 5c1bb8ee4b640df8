"""Sections of the page: each operator's section is in a module of the operator's name; see marin.report.section."""
