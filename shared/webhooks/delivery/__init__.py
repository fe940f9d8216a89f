"""The worker's side of webhooks: sends the deliveries that are due.

`worker` is a thread of each Celery worker; `outbox` claims due deliveries and records attempts; `transport` makes one
attempt, over `pinned` connections; `retries` is the retry schedule.

Import `outbox.deliver_due`, `outbox.delete_old_deliveries` and `worker.DeliveryWorker`.
"""
