"""A shop to look around in: the people, goods and history that `manage_commerce.py seed` makes."""
