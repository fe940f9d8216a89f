"""Scoring: relevance of documents to a query."""
