"""Reads that anybody may ask for: `conditional` has their ETags, `cache` keeps them for a few seconds."""
