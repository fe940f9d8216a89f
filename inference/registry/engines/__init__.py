"""Engines that run models, local or remote.

Import `model_engine`, which sends each request to the engine of its model. Requests are counted, timed and traced.
"""

from inference.registry.engines.routing import model_engine

__all__ = ["model_engine"]
