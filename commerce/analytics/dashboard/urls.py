"""Routes of the dashboard, and of the index of the admin that leads to it, under /admin."""

from django.urls import path
from django.views.decorators.http import require_safe

from commerce.analytics.dashboard.access import SignOutView, admin_index, shop_users_only
from commerce.analytics.dashboard.views import SignInView, download_table, show_dashboard, show_shops

urlpatterns = [
    path("", admin_index),
    path("dashboard/", require_safe(shop_users_only(show_dashboard)), name="dashboard"),
    path("dashboard/shops/", require_safe(shop_users_only(show_shops)), name="dashboard_shops"),
    path("dashboard/sign-in/", SignInView.as_view(), name="dashboard_sign_in"),
    path("dashboard/sign-out/", SignOutView.as_view(), name="dashboard_sign_out"),
    path("dashboard/<slug:table>.csv", require_safe(shop_users_only(download_table)), name="dashboard_csv"),
]
