"""Aggregation: the ledger is summed into rollups, rollups are rebuilt, and reconciled with the shop's tables.

`batches` aggregates the ledger, `rebuild` makes a new generation of all rollups, `reconcile` compares them with the
shop's tables. Each step holds the lock of `lock` until it commits, so it takes effect once or not at all.
"""
