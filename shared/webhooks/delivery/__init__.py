"""The worker's side of webhooks: sends the deliveries that are due.

`outbox` claims due deliveries and records attempts; `transport` makes one attempt, over `pinned` connections;
`retries` is the retry schedule. Import `outbox.deliver_due` and `outbox.delete_old_deliveries`.
"""
