"""Train models with Levanter: marin's readable configuration in, checkpoints and metrics out."""
