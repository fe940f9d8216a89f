"""Route of the settings of the shop, under /api."""

from django.urls import path

from commerce.site_settings.views import SettingsView

urlpatterns = [path("settings", SettingsView.as_view())]
