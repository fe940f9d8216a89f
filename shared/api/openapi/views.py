"""Views of the OpenAPI document."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils.translation import get_language, get_supported_language_variant, override
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request


class OpenApiView(SpectacularJSONAPIView):
    """The OpenAPI document, which a process makes once for each language: it takes a second, for anybody who asks.

    `lang` is any language; an unknown one gets LANGUAGE_CODE's document. extra_headers: of the response.
    """

    extra_headers: Mapping[str, str] = {}

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        language = _supported_language(request.GET.get("lang") or get_language() or "")
        document = _document(settings.ROOT_URLCONF, language)
        content_type = request.accepted_renderer.media_type
        return HttpResponse(document, content_type=content_type, headers={**self.extra_headers})


def _supported_language(code: str) -> str:
    try:
        return get_supported_language_variant(code)
    except LookupError:
        return settings.LANGUAGE_CODE


@cache
def _document(urlconf: str, language: str) -> bytes:
    with override(language):
        schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        document: bytes = OpenApiJsonRenderer().render(schema)
    return document
