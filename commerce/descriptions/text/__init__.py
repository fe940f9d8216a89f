"""Prompts for the language model and the cleaning of its text. Pure functions, without Django."""
