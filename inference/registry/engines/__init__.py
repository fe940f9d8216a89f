"""The engines that run requests for a model: this machine's model processes, or a remote server.

Import `engine_for`. Requests through its engine are counted, timed and traced.
"""

from inference.registry.engines.local import engine_for

__all__ = ["engine_for"]
