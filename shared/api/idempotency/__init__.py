"""Storage of responses by `Idempotency-Key`: `store` claims keys and keeps responses, `fingerprints` compares requests.

The Django middleware is `shared.accounts.middleware.idempotency`, since a key belongs to a user.
"""
