"""Code of both projects: settings, users and API keys, errors and limits of the API, observability, serving, SQLite."""
