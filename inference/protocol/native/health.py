"""GET /health."""

from msgspec import Struct


class HealthResponse(Struct):
    """`status` is `healthy`, or `degraded` while a wanted model is not loaded."""

    status: str
    version: str
    uptime_seconds: int
    models_loaded: int
