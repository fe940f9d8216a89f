"""GET /metrics and POST /metrics/custom: what this machine's processes count, what its models do now, what waits in
the database, and what clients have sent. Each number is declared where it is counted."""
