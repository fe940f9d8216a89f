"""Template tag of the header."""
