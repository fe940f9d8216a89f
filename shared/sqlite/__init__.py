"""Database backend for SQLite with fair queueing of writers: `ENGINE = "shared.sqlite"`.

`statistics` and `tasks` refresh the planner's statistics, `persistent_connections` keeps the WAL files in place.
"""
