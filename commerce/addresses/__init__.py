"""Billing and shipping addresses of users, and their check against the postal rules of a country.

Import `models` to read a user's addresses, `services` to write, and `validators` for addresses in other records.
"""
