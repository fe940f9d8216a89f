"""Base classes of the admins of both projects, and the languages of their labels."""
