"""Benchmarks of suggestions to moderators, with their judged reports."""
