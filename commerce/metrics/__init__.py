"""GET /metrics: what this machine's processes count, and what waits in the database. Each number is declared where it
is counted."""
