"""Webhooks of both projects: users' endpoints, and signed notifications of events to them.

Each project has tables of its own: it installs this app under a label of its own, with its own migrations, and has its
own API and events. Import `services`: `announce` an event, and check the `webhook_url` of a request. `models` has the
endpoints and the outbox of deliveries; `destinations` decides which addresses are allowed; `signing` and `encryption`
handle secrets; `deliveries` lists and redelivers. `delivery` is the worker's side: it sends what is due.
"""
