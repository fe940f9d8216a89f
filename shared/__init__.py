"""What both projects stand on: accounts, errors and limits of an API, logs and request ids, serving."""
