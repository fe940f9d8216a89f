"""Limits of requests and of queries.

* `counters`: counters with limits, in Redis or in this process.
* `rate_limits`: sliding windows on top of them.
* `throttling`: DRF throttle classes on top of them.
* `query_limits`: statement timeout and concurrency limit of searches.
"""
