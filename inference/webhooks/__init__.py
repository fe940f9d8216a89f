"""Webhooks of the model server: its tables, its events and the API `/webhooks`. See `shared.webhooks`."""
