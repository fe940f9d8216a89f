"""Shops, who owns them, who works in them, and what a signed-in user is told about themself."""
