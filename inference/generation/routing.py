"""WebSockets of generation."""

from inference.generation.consumers import GenerationConsumer

websockets = {"/ws": GenerationConsumer.as_asgi()}
