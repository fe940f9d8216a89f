"""GET /metrics and POST /metrics/custom.

The response has counters of this machine's processes, statistics of its models, gauges of the queues in the database,
and custom metrics of clients. Counters are declared in the modules that increment them.
"""
