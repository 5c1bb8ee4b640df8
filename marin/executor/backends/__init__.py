"""Where attempts run: in this process, or on a Ray cluster."""
