"""E-mails about accounts: `messages` composes them, `links` signs their tokens, `outbox` delivers them.

It imports no other module of accounts at run time; `shared.accounts.recovery` and `services` use it.
"""
