"""Backends, which run attempts: in this process, or on a Ray cluster."""
