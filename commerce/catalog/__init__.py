"""What the shops sell: products, their types and categories, and the demo data that fills them."""
