"""Embeddings: texts become vectors."""
