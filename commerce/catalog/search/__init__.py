"""Search in the products: full text on both databases, vectors, spelling, suggestions and highlighted snippets.

Import `services` to search and to suggest; `indexing` and `vectors.embedding` follow the products, from periodic tasks.
"""
