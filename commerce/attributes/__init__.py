"""What a shop's products can differ in: an attribute and its values, in every language."""
