"""Hand-over of a whole batch to a member of its model's pool, which runs it by its own /v1/batches.

`services` creates a hand-over with its batch and advances it: send, follow, fetch, cancel. `member_client` is the
client of the member's files and batches, `results` reads its output files and records what they have.

The batch's requests stay pending meanwhile, and `Batch.resume_at` keeps our workers from them until the batch is given
back. The row is the truth: whichever worker finds it due goes on with it.
"""
