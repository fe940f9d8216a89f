"""Shops, their owners and staff, staff invitations, and the signed-in user's own record.

Import `models` for querysets that say who may see and manage a shop, `services` to write, and `serializers` to show a
shop inside another record.
"""
