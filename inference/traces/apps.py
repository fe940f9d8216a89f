"""Traces as a Django app."""

from django.apps import AppConfig


class TracesConfig(AppConfig):
    """Owns the spans of the last day that are somebody's."""

    name = "inference.traces"
    label = "inference_traces"
    verbose_name = "Traces"
