"""S3 as the place of attachments, from its own settings."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from environ import Env


def s3_storage(env: Env) -> dict[str, Any]:
    """The entry of STORAGES. Raises ImproperlyConfigured without a bucket.

    Without keys of ours boto3 looks for its own: AWS_ACCESS_KEY_ID, a profile, the machine's role.
    """
    bucket = env.str("STOA_S3_BUCKET", default="")
    if not bucket:
        raise ImproperlyConfigured("STOA_STORAGE is s3: set STOA_S3_BUCKET to the name of the bucket.")
    return {
        "BACKEND": "commerce.attachments.s3.AttachmentS3Storage",
        "OPTIONS": {
            "bucket_name": bucket,
            "endpoint_url": env.str("STOA_S3_ENDPOINT", default="") or None,
            "region_name": env.str("STOA_S3_REGION", default="") or None,
            "access_key": env.str("STOA_S3_ACCESS_KEY", default="") or None,
            "secret_key": env.str("STOA_S3_SECRET_KEY", default="") or None,
            "signature_version": "s3v4",
            "default_acl": None,
            "file_overwrite": True,  # as on a disk
            "querystring_expire": 300,
        },
    }
