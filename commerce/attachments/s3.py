"""S3 storage backend of attachments."""

from typing import Any

from storages.backends.s3 import S3Storage

from commerce.attachments.storage import response_headers


class AttachmentS3Storage(S3Storage):  # type: ignore[misc] # django-storages has no types
    """S3 storage that serves files with this server's headers and accepts uploads straight from clients."""

    def get_object_parameters(self, name: str) -> dict[str, Any]:
        try:
            headers = response_headers(name.rpartition("/")[2])
        except FileNotFoundError:  # a presigned upload, which is never served
            return {}
        return {parameter.replace("-", ""): value for parameter, value in headers.items()}

    def presigned_post(self, path: str, *, max_bytes: int, expires_seconds: int) -> dict[str, Any]:
        """Return a form (`url` and `fields`) that lets its holder upload one object to this path."""
        form: dict[str, Any] = self.connection.meta.client.generate_presigned_post(
            self.bucket_name, path, Conditions=[["content-length-range", 1, max_bytes]], ExpiresIn=expires_seconds
        )
        return form
