"""Benchmarks, one a module: `deploy/run bench NAME [--quick] [--json FILE]`. Each prints a table of ratios of things
measured side by side in one run, and asserts nothing: what a machine does in a second is its own affair."""
