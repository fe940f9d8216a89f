"""Scoring: relevance of documents to a query, and decisions by the probabilities of answers."""
