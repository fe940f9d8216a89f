"""Names of the events of the model server."""

BATCH_COMPLETE = "batch.complete"
