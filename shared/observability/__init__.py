"""Observability of a running server: request ids, logs, health checks, metrics and traces."""
