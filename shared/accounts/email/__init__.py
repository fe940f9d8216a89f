"""E-mails about accounts: `messages` writes them, `links` signs the tokens in them, `outbox` delivers them.

It imports no other module of accounts; `shared.accounts.recovery` and `services` stand on it.
"""
