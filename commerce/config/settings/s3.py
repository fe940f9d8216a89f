"""The S3 storage of attachments from environment variables."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from shared.environment import Environment
from shared.s3 import s3_options


def s3_storage(env: Environment) -> dict[str, Any]:
    """Return the entry of STORAGES. Raises ImproperlyConfigured without a bucket."""
    bucket = env.str("STOA_S3_BUCKET")
    if not bucket:
        raise ImproperlyConfigured("STOA_STORAGE is s3: set STOA_S3_BUCKET to the name of the bucket.")
    return {
        "BACKEND": "commerce.attachments.s3.AttachmentS3Storage",
        "OPTIONS": s3_options(env, bucket),
    }
