"""Configuration of the site settings app."""

from django.apps import AppConfig


class SiteSettingsConfig(AppConfig):
    name = "commerce.site_settings"
    label = "commerce_site_settings"
    verbose_name = "Site settings"
