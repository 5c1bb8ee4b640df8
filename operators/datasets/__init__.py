"""The catalogue: the origin of each named source, at full scale and in a rehearsal."""
