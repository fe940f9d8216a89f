"""The registry as a Django app."""

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    """Owns what is wanted; what exists is on disk, what runs is known by the model hosts."""

    name = "inference.registry"
    label = "inference_registry"
    verbose_name = "Models"
