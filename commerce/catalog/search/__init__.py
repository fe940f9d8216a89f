"""Search in the products: full text on both databases, spelling, suggestions and highlighted snippets.

Import `services` to search and to suggest; `indexing` keeps the index up to date, from a periodic task.
"""
