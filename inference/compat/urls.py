"""Routes of other servers' APIs, as far as the settings have them."""

from django.urls import path

from inference.compat import mcp_views, messages_views, ollama_views, services

MESSAGES = [
    path("v1/messages", messages_views.create_message),
    path("v1/messages/count_tokens", messages_views.count_tokens),
]
OLLAMA = [
    path("api/chat", ollama_views.chat),
    path("api/generate", ollama_views.generate),
    path("api/embed", ollama_views.embed),
    path("api/tags", ollama_views.list_models),
    path("api/ps", ollama_views.list_loaded_models),
    path("api/show", ollama_views.show),
    path("api/version", ollama_views.version),
]
MCP = [path("mcp", mcp_views.exchange)]

urlpatterns = [
    *(MESSAGES if services.offers_anthropic() else []),
    *(OLLAMA if services.offers_ollama() else []),
    *(MCP if services.offers_mcp() else []),
]
