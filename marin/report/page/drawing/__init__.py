"""Static pages and plots that open from disk."""
