"""Benchmarks: each prints a table of what was measured side by side in one run. `deploy/run bench NAME` runs one."""
