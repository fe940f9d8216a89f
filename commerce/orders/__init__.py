"""Orders, each a parent with a child for every shop; their lines, statuses and refunds.

Import `models` for querysets that say who may see and fulfil an order, `services` to write, `pricing` for the lines
that `place_order` takes, and `bulk_insert` to insert past orders in bulk.
"""
