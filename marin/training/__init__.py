"""From our readable configuration to Levanter's, and back to checkpoints and metrics."""
