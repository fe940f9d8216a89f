"""Reports of content that should not be there."""
