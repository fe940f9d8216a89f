"""Tokens: the token ids of texts, and the texts of token ids."""
