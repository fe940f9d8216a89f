"""Configuration of the onboarding app."""

from django.apps import AppConfig


class OnboardingConfig(AppConfig):
    name = "commerce.onboarding"
    label = "commerce_onboarding"
    verbose_name = "Onboarding"
