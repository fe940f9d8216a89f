"""Routes of the shop: the API under /api, without trailing slashes, the storefront, media, the admin, health checks."""

from datetime import date

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from commerce.analytics.dashboard.access import ShopAdminSignInForm
from commerce.metrics.health_checks import CHECKS
from shared.api.admin.labels import translate_admin
from shared.api.openapi import deprecation_headers
from shared.api.openapi.views import OpenApiView
from shared.observability.health import livez, readyz
from shared.pages.docs import DocsView
from shared.pages.landing import Link, landing_page
from shared.serving.health_page import health_page
from shared.serving.storage_checks import check_database, check_disk

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
    path("", include("commerce.site_settings.urls")),
    path("", include("commerce.webhooks.urls")),
    path("openapi.json", OpenApiView.as_view(), name="openapi"),
    path(
        "schema",
        OpenApiView.as_view(
            extra_headers=deprecation_headers(
                since=date(2026, 11, 24), sunset=date(2027, 6, 30), successor="/api/openapi.json"
            )
        ),
    ),
    path("docs", DocsView.as_view(), name="docs"),
]

landing = landing_page(
    "Stoa shop",
    "The API of a multi-vendor shop, with an admin for moderators and a dashboard for shop owners.",
    [
        Link("storefront", "/shop/", "Shop", "Search for products, and look at them."),
        Link("admin", "/admin/", "Admin", "Moderate reports, appeals and shops."),
        Link("dashboard", "/admin/dashboard/", "Dashboard", "Revenue, orders and products of your shops."),
        Link("docs", "/api/docs", "API", "Every operation, to try in the browser."),
        Link("openapi", "/api/openapi.json", "OpenAPI document", "The same for generators of clients."),
        Link("products", "/api/products", "Products", "What the shops sell, as JSON."),
    ],
)

translate_admin(admin.site)  # once every app has registered its pages
admin.site.login_form = ShopAdminSignInForm

urlpatterns = [
    path("", landing, name="landing"),
    path("api/", include(api)),
    path("", include("commerce.storefront.urls")),
    path("media/", include("commerce.attachments.media")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/health/", health_page(CHECKS), name="health_page"),
    path("admin/", include("commerce.analytics.dashboard.urls")),
    path("admin/", include("commerce.descriptions.admin.shop_urls")),
    path("admin/", include("commerce.onboarding.urls")),
    path("admin/", admin.site.urls),
    path("", include("commerce.metrics.urls")),
    path("livez", livez),
    path("readyz", readyz(database=check_database, disk=check_disk)),
]
