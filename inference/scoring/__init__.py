"""Scoring: relevance to a query, decisions by the probabilities of answers, and moderation."""
