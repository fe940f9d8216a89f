"""Webhooks: users' endpoints, and signed notifications of events to them.

Import `services`: `announce` an event, and check the `webhook_url` of a request. `models` has the endpoints and the
outbox of deliveries; `destinations` decides which addresses are allowed; `signing` and `encryption` handle secrets;
`deliveries` lists and redelivers. `delivery` is the worker's side: it sends what is due.
"""
