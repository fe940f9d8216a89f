"""Sales analytics for the platform and for shops: API, dashboard, and the rollups behind them.

Triggers write a `ledger` of differences, `aggregation` sums it into rollups, `reports` reads both. Import `reports` to
read, `services` to maintain.
"""
