"""S3 storage options of both projects, from environment variables."""

from typing import Any

from shared.environment import Environment


def s3_options(env: Environment, bucket: str) -> dict[str, Any]:
    """Return the OPTIONS of a django-storages S3 storage.

    Without keys in the environment boto3 uses its own: AWS_ACCESS_KEY_ID, a profile or the machine's role.
    """
    return {
        "bucket_name": bucket,
        "endpoint_url": env.str("STOA_S3_ENDPOINT") or None,
        "region_name": env.str("STOA_S3_REGION") or None,
        "access_key": env.str("STOA_S3_ACCESS_KEY") or None,
        "secret_key": env.str("STOA_S3_SECRET_KEY") or None,
        "signature_version": "s3v4",
        "default_acl": None,
        "file_overwrite": True,  # as on a disk
        "querystring_expire": 300,
    }
