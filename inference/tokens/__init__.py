"""Tokens: texts as a model reads them, and back. For whoever counts them before asking."""
