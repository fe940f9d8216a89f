"""Benchmarks, one in each public module: `deploy/run bench NAME [--quick] [--json FILE]`.

Each prints a table of ratios between two things measured side by side in one run. It asserts nothing, because absolute
speeds depend on the machine. Modules that begin with `_` are helpers.
"""
