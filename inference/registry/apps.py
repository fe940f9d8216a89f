"""The registry as a Django app."""

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    """No tables yet: what exists is on disk, what runs is known by the model host."""

    name = "inference.registry"
    label = "inference_registry"
