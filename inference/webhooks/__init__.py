"""Telling users' own servers what has happened: `services.announce` and `services.prepare_one_off` are the door.

`models`: endpoints, and the ledger of what was sent to them. `destinations`: where a webhook may go. `signing` signs,
`sealing` keeps the secrets, `schedule` says when to try again. `transport` makes one attempt, over a `pinned` network;
`delivery` makes all that are due.
"""
