"""The worker's side of batches.

`process` starts with the Celery worker: it runs the `sweeper`, and takes batches whose message was lost. `runner`
works on one batch for a time slice: it claims requests under a lease (`leases`), executes them (`execution`),
classifies how they ended (`completion`) and writes the results (`recording`), in a thread of its own (`database`).

Import `runner.run_batch`, `sweeper.delete_old_batches` and `process.worker`.
"""
