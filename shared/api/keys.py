"""Things that are named in a path by their slug or their id: `path("shops/<slug:key>", ...)`."""

from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404
from rest_framework.generics import RetrieveAPIView
from rest_framework.request import Request

from shared.api.query import query_language, whole_number
from shared.api.slugs import reads_as_id

M = TypeVar("M", bound=Model)


def by_key(rows: "QuerySet[M]", key: str, **slug_scope: str) -> M:
    """The row that `key` names: by its id where it is a number, else by its slug, within `slug_scope` (a language).
    Raises Http404."""
    if reads_as_id(key):
        number = whole_number(key)
        found = None if number is None else rows.filter(pk=number).first()
    else:
        found = rows.filter(slug=key, **slug_scope).first()
    if found is None:
        raise Http404
    return found


class KeyedView(RetrieveAPIView[Any]):
    """One thing, by slug or id. Where slugs are unique in a language only, it is `language` of the query string, or
    English."""

    lookup_url_kwarg = "key"
    has_languages = False

    def get_object(self) -> Any:
        return self.find(self.filter_queryset(self.get_queryset()))

    def find(self, rows: "QuerySet[M]") -> M:
        """Of `rows`, the one that the path names. Raises Http404."""
        return by_key(rows, self.kwargs["key"], **self._scope(self.request))

    def _scope(self, request: Request) -> dict[str, str]:
        return {"language": query_language(request)} if self.has_languages else {}
