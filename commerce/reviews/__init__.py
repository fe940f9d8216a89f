"""What customers say and ask about products."""
