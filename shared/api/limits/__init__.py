"""Limits of requests and of queries.

* `rate_limits`: sliding windows, counted in Redis or in this process.
* `throttling`: DRF throttle classes on top of them.
* `query_limits`: statement timeout and concurrency limit of searches.
"""
