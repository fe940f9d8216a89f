"""What the product form's template asks of descriptions."""
