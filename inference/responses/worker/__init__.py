"""The worker's side of background responses.

`process` starts with the Celery worker: one thread with an event loop, which claims responses from the database
(`claims`) and runs each to its end (`run`). It needs no broker. Import `process.response_worker`.
"""
