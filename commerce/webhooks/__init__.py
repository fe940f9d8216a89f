"""Webhooks of the shop: its tables, its events and the API `/api/webhooks`. See `shared.webhooks`.

Import `events`: the services that change an order, a product, a review or a report announce it there, in the
transaction of the change.
"""
