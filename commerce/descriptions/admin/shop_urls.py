"""Routes of the product texts, under /admin."""

from django.urls import path
from django.views.decorators.http import require_safe

from commerce.analytics.dashboard.access import ALLOWED_ROLES, shop_users_only
from commerce.descriptions.admin.draft_views import writer_urls
from commerce.descriptions.admin.shop_views import list_texts, show_text

urlpatterns = [
    path("dashboard/texts/", require_safe(shop_users_only(list_texts)), name="dashboard_texts"),
    path("dashboard/texts/<id:product_id>/", require_safe(shop_users_only(show_text)), name="dashboard_text"),
    *writer_urls(
        prefix="dashboard/texts/drafts/", name="dashboard_texts", may_use=lambda user: user.role in ALLOWED_ROLES
    ),
]
