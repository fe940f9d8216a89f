"""WebSocket routes of generation."""

from channels.routing import URLRouter
from django.urls import path, re_path

from inference.generation.consumers import GenerationConsumer
from shared.serving.asgi.websockets import reject_unknown_path

websocket_router = URLRouter(
    [
        path("ws", GenerationConsumer.as_asgi()),
        re_path("", reject_unknown_path),  # type: ignore[arg-type]  # an ASGI application, as URLRouter wants it
    ]
)
