"""Routes of the settings of the shop, under /api."""

from django.urls import path

from commerce.site_settings.views import SettingsEntryView, SettingsView

urlpatterns = [
    path("settings", SettingsView.as_view()),
    path("settings/1", SettingsEntryView.as_view()),
]
