"""Where S3 is and who we are there, for both projects; each has a bucket of its own."""

from typing import Any

from shared.environment import Environment


def s3_options(env: Environment, bucket: str) -> dict[str, Any]:
    """The OPTIONS of a storage of django-storages.

    Without keys of ours boto3 looks for its own: AWS_ACCESS_KEY_ID, a profile, the machine's role.
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
