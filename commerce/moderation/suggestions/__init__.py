"""Suggestions from the shop's own decisions: vectors of cases, what is learned from them, and what moderators see."""
