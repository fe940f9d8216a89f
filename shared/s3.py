"""S3 storage options of both projects, from environment variables, and the failures of an S3 server."""

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


def is_transient_s3_error(exception: BaseException) -> bool:
    """Return whether S3 was unreachable, broke off or failed, so that the same request may succeed later."""
    from botocore import exceptions  # imported after the first error: it takes 0.1 s
    from s3transfer.exceptions import RetriesExceededError

    if isinstance(exception, exceptions.ClientError):
        return bool(exception.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500)
    failures = (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        RetriesExceededError,  # of a download that broke off
    )
    return isinstance(exception, failures)
