"""Strings and arrays in, strings and arrays out: normalisation, extraction, quality, dedup, overlap."""
