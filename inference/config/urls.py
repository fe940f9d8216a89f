"""Every route of the model server."""

from datetime import date

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from inference.config.asyncapi.document import asyncapi_document
from inference.registry.services import check_model_host
from shared.api.openapi import deprecation_headers
from shared.api.openapi.views import OpenApiView
from shared.observability.health import livez, readyz
from shared.pages.docs import DocsView
from shared.pages.landing import Link, landing_page
from shared.serving.storage_checks import check_database, check_disk

landing = landing_page(
    "Stoa model server",
    "Language models behind a native API, a WebSocket, and the APIs of OpenAI, Anthropic and Ollama.",
    [
        Link("playground", "/playground", "Playground", "Try the models in the browser, with an API key or a login."),
        Link("admin", "/admin/", "Admin", "Models, batches, webhooks, API keys, usage and traces."),
        Link("docs", "/docs", "API", "Every operation, to try in the browser."),
        Link("openapi", "/openapi.json", "OpenAPI document", "The same for generators of clients."),
        Link("models", "/models", "Models", "Which models there are, as JSON. It asks for a key."),
        Link("health", "/health", "Health", "Whether all models that should be loaded are."),
    ],
)

urlpatterns = [
    path("", landing),
    path("", include("inference.registry.urls")),
    path("", include("inference.generation.urls")),
    path("", include("inference.responses.urls")),
    path("", include("inference.embeddings.urls")),
    path("", include("inference.scoring.urls")),
    path("", include("inference.tokens.urls")),
    path("", include("inference.compat.urls")),
    path("", include("inference.files.urls")),
    path("", include("inference.webhooks.urls")),
    path("", include("inference.access.urls")),
    path("", include("inference.usage.urls")),
    path("", include("inference.metrics.urls")),
    path("", include("inference.traces.urls")),
    path("", include("inference.playground.urls")),
    path("", include("inference.batches.urls")),
    path("", include("inference.openai_batches.urls")),
    path("livez", livez),
    path("readyz", readyz(database=check_database, disk=check_disk, model_host=check_model_host)),
    path("asyncapi.json", asyncapi_document),
    path("openapi.json", OpenApiView.as_view(), name="openapi"),
    path(
        "schema",
        OpenApiView.as_view(
            extra_headers=deprecation_headers(
                since=date(2026, 11, 24), sunset=date(2027, 6, 30), successor="/openapi.json"
            )
        ),
    ),
    path("docs", DocsView.as_view(), name="docs"),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
]
