"""The Django app of OpenAI's batches."""

from django.apps import AppConfig


class OpenAIBatchesConfig(AppConfig):
    """App of the fields that OpenAI's batches have in addition to a batch: files, metadata and validation errors."""

    name = "inference.openai_batches"
    label = "inference_openai_batches"
    verbose_name = "OpenAI batches"
