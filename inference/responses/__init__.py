"""Responses and conversations: OpenAI's /v1/responses and /v1/conversations.

A stored response is a row. A background response is also a job, which `worker` runs in worker processes: it takes rows
from the database and needs no broker. Another run finishes what a dead one began, with the same seed and the same ids.
"""
