"""The first steps of a new shop owner, at /admin/first-steps/: a shop, its first product, its staff."""
