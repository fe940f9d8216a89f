"""Template tags of the product form."""
