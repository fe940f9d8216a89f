"""What the shops earn: a ledger that triggers write, figures folded from it, and the reads. Import `reports`."""
