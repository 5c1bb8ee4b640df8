"""Is this run healthy: how far its batches are from independent draws."""
