"""Clusters that live longer than a run: what is sent there, what is asked of them, one that is kept on this machine."""
