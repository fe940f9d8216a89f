"""Simulated machines of an operator: each a network namespace with its own address, folders and processes.

`machines` starts them, `bin` has their stand-ins for systemd and scp, `cluster_page` runs docs/operator/cluster.md.
"""
