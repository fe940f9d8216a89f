"""Bulk jobs: drafts for many products, written by the model server as one batch.

`services` creates and cancels jobs, `processing` sends the batches and reads their results, `webhooks` receives the
model server's notifications. Other packages import `services`.
"""
