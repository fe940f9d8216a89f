"""Wire struct of GET /health."""

from typing import Annotated

from msgspec import Meta, Struct


class HealthResponse(Struct):
    """The state of the service."""

    status: Annotated[
        str,
        Meta(description="`healthy`, or `degraded` while a model that should be loaded is not.", examples=["healthy"]),
    ]
    version: Annotated[str, Meta(description="Version of the product.", examples=["1.0.0"])]
    uptime_seconds: Annotated[int, Meta(description="Seconds since the server's start.", examples=[210])]
    models_loaded: Annotated[int, Meta(description="Number of loaded models on this machine.", examples=[2])]
