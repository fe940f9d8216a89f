"""Views of the OpenAPI document."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import translation
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request


class OpenApiView(SpectacularJSONAPIView):
    """The OpenAPI document, the same for everybody: a process generates it once, which takes a second.

    extra_headers: of the response.
    """

    extra_headers: Mapping[str, str] = {}

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        content_type = request.accepted_renderer.media_type
        return HttpResponse(_document(), content_type=content_type, headers={**self.extra_headers})


@cache
def _document() -> bytes:
    with translation.override(settings.LANGUAGE_CODE):
        generator = SpectacularJSONAPIView.generator_class()
        schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        document: bytes = OpenApiJsonRenderer().render(schema)
    return document
