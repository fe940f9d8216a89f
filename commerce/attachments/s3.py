"""S3 that gives a file out with the same headers as we do, and takes files straight from clients."""

from typing import Any

from storages.backends.s3 import S3Storage

from commerce.attachments.storage import headers_of


class AttachmentS3Storage(S3Storage):  # type: ignore[misc] # django-storages has no types
    def get_object_parameters(self, name: str) -> dict[str, Any]:
        try:
            headers = headers_of(name.rpartition("/")[2])
        except FileNotFoundError:  # one of a client's own, which nobody is given
            return {}
        return {parameter.replace("-", ""): value for parameter, value in headers.items()}

    def presigned_post(self, path: str, *, largest: int, expires_s: int) -> dict[str, Any]:
        """A form, `url` and `fields`, by which anybody may put one object of at most `largest` bytes at this path."""
        form: dict[str, Any] = self.connection.meta.client.generate_presigned_post(
            self.bucket_name, path, Conditions=[["content-length-range", 1, largest]], ExpiresIn=expires_s
        )
        return form
