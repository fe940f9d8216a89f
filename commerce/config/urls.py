"""Every path of the shop. The API is under /api, with no trailing slash anywhere."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView

from commerce.attachments.urls import media_urlpatterns
from shared.observability.health import check_database, livez, readyz

api: list[URLPattern | URLResolver] = [
    path("", include("shared.accounts.urls")),
    path("", include("commerce.shops.urls")),
    path("", include("commerce.catalog.urls")),
    path("", include("commerce.orders.urls")),
    path("", include("commerce.reviews.urls")),
    path("", include("commerce.moderation.urls")),
    path("", include("commerce.addresses.urls")),
    path("", include("commerce.attachments.urls")),
    path("", include("commerce.attributes.urls")),
    path("", include("commerce.analytics.urls")),
    path("", include("commerce.descriptions.urls")),
    path("schema", SpectacularJSONAPIView.as_view(), name="schema"),
    path(
        "docs", SpectacularSwaggerSplitView.as_view(url_name="schema", http_method_names=["get", "head"]), name="docs"
    ),
]

urlpatterns = [
    path("api/", include(api)),
    path("media/", include(media_urlpatterns)),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", include("commerce.analytics.dashboard_urls")),
    path("admin/", admin.site.urls),
    path("", include("commerce.metrics.urls")),
    path("livez", livez),
    path("readyz", readyz(database=check_database)),
]
