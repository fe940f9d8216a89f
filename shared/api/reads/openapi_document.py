"""Generator of the OpenAPI document, which makes it once for each language."""

from typing import Any

from django.conf import settings
from django.utils.translation import get_language
from drf_spectacular.generators import SchemaGenerator
from rest_framework.request import Request

_documents: dict[tuple[str, str | None], dict[str, Any]] = {}


class CachedSchemaGenerator(SchemaGenerator):
    """Generator that keeps the documents of a process: making one takes a second of a core, for anybody who asks."""

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        if self.api_version or self.patterns or self.urlconf or not public:
            return self._make(request, public)
        name = (settings.ROOT_URLCONF, get_language())
        if name not in _documents:
            _documents[name] = self._make(request, public)
        return _documents[name]

    def _make(self, request: Request | None, public: bool) -> dict[str, Any]:
        document: dict[str, Any] = super().get_schema(request=request, public=public)  # type: ignore[no-untyped-call]
        return document
