"""The Django app of files."""

from django.apps import AppConfig


class FilesConfig(AppConfig):
    """App of the input and output files of batches, as rows and as content in the storage."""

    name = "inference.files"
    label = "inference_files"
    verbose_name = "Files"
