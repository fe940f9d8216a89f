"""The loader of model processes whose limits of external engines are low, so that a test reaches them."""

from inference.engine.external import engine, server
from inference.engine.host.loading import load_model

__all__ = ["load_model"]

server.READY_SECONDS = 2.0
engine.HEALTH_SECONDS = 0.2
engine.LEAK_BYTES = 2**26
