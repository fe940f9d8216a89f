"""Embeddings: vectors of texts."""
