"""App configuration of the model registry."""

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    """The app of the desired state of models. Which models exist is on disk; which run is known to the model hosts."""

    name = "inference.registry"
    label = "inference_registry"
    verbose_name = "Models"
