"""Pages for shoppers at `/shop/`, rendered on the server: search, suggestions, facets, products and similar ones.

They show what the REST API returns, by the same services. `urls` is included by the routes.
"""
