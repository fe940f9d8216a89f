"""`GET /metrics`: the counters of this machine's processes, and gauges of what waits in the database.

Each counter is declared in the module that counts it; this package only collects them.
"""
