"""Clusters that outlive a run: submitted jobs, their dashboards, and a cluster that is kept on this machine."""
