"""Telling users' own servers what has happened. The door is `services`: `announce`, and for the address of a single
request `check_one_off` and `default_secret`.

`models`: endpoints, and the ledger of what was sent to them. `destinations`: where a webhook may go. `signing` signs,
`sealing` keeps the secrets, `schedule` says when to try again. `transport` makes one attempt, over a `pinned` network;
`delivery` makes all that are due, and `redelivery` makes due again.
"""
