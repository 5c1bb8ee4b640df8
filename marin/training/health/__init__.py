"""Is this run healthy: level shifts, spikes, batch correlation."""
