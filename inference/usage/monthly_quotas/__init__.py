"""Monthly token quotas of users and API keys.

`quotas` computes the quotas of a request, and what the ledger has used of them; `reserver` reserves tokens within
them before a request runs; `reservations` and `redis_reservations` store the reservations.
"""
