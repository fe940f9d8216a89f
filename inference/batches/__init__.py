"""Batches: jobs of many requests that workers execute in the background and that survive every crash.

Other packages import `services` (create, cancel, retry, delete), `submission` (the body of POST /batch), `results`
(read and serialize), `dispatch` (task names) and `models`. `worker` is the worker's side.
"""
