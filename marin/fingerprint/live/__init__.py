"""This process's modules compared with their files: what was patched, or has no source at all."""
