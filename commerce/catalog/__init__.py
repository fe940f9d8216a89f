"""Products with their variations, stock and ratings; product types and categories.

`search` is a Django app of its own inside this one. Import `models` for querysets that say who may see and manage a
product, `services` to write products, `stock` to move stock, `taxonomy` to write types and categories, and
`admin_money` for money in admin pages.
"""
