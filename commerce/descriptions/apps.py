"""Django configuration of the descriptions app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DescriptionsConfig(AppConfig):
    name = "commerce.descriptions"
    label = "commerce_descriptions"
    verbose_name = _("Descriptions")
