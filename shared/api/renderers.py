"""Rendering of responses as JSON."""

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder

_PARAGRAPHS = {"\u2028".encode(): b"\\u2028", "\u2029".encode(): b"\\u2029"}  # which end a line in JavaScript


class FastJSONRenderer(JSONRenderer):
    """DRF's renderer with the encoder of msgspec, which takes a tenth of the time, for bodies without an indent."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> Any:
        if data is None or self.get_indent(accepted_media_type or "", renderer_context or {}) is not None:
            return super().render(data, accepted_media_type, renderer_context)
        body = _encoder.encode(data)
        for paragraph, escaped in _PARAGRAPHS.items():
            body = body.replace(paragraph, escaped)
        return body


def _encode_other(value: Any) -> Any:
    """Return the form of a value that msgspec does not know, such as a text that is safe in HTML, or a lazy one."""
    return str.__str__(value) if isinstance(value, str) else JSONEncoder().default(value)


_encoder = msgspec.json.Encoder(enc_hook=_encode_other, decimal_format="number")
