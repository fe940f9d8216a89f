"""Files as a Django app."""

from django.apps import AppConfig


class FilesConfig(AppConfig):
    """Owns what was uploaded for batches and what batches have written, in rows and in the storage."""

    name = "inference.files"
    label = "inference_files"
    verbose_name = "Files"
