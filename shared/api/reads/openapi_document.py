"""Generator of the OpenAPI document, which makes it once for each language."""

from typing import Any

from django.conf import settings
from django.utils.translation import get_language, get_supported_language_variant, override
from drf_spectacular.generators import SchemaGenerator
from rest_framework.request import Request

_documents: dict[tuple[str, str], dict[str, Any]] = {}


class CachedSchemaGenerator(SchemaGenerator):
    """Generator that keeps the documents of a process: making one takes a second of a core, for anybody who asks.

    Clients may send any `lang` and `version`. An unknown language gets LANGUAGE_CODE's document; there is one version.
    """

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        if self.patterns or self.urlconf or not public:
            return self._make(request, public)
        self.api_version = None
        language = _supported_language()
        name = (settings.ROOT_URLCONF, language)
        if name not in _documents:
            with override(language):
                _documents[name] = self._make(request, public)
        return _documents[name]

    def _make(self, request: Request | None, public: bool) -> dict[str, Any]:
        document: dict[str, Any] = super().get_schema(request=request, public=public)  # type: ignore[no-untyped-call]
        return document


def _supported_language() -> str:
    try:
        return get_supported_language_variant(get_language() or settings.LANGUAGE_CODE)
    except LookupError:
        return settings.LANGUAGE_CODE
