"""API code of both projects: errors, strict JSON, limits, idempotency, lists, ViewSets and admin base classes."""
