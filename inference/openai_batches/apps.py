"""OpenAI's batches as a Django app."""

from django.apps import AppConfig


class OpenAIBatchesConfig(AppConfig):
    """Owns what OpenAI's form of a batch says beyond its job: files, metadata, and what is wrong with a file."""

    name = "inference.openai_batches"
    label = "inference_openai_batches"
    verbose_name = "Batches in OpenAI's form"
