"""Reads of analytics: rollups plus the ledger entries that are not aggregated yet, in one snapshot.

`report.open_report` reads sums, series and shops; `products` reads categories and ratings. `scopes` decides whose sales
a user may read. Money in the results is in minor units.
"""
