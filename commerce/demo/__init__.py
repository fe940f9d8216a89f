"""Demo data that `manage_commerce.py seed` creates: users, shops, products, orders, reviews and reports."""
