"""Texts that operations of several apps share: the introduction, path parameters and fields of every record."""

from typing import Any

from shared.api.converters import MAX_ID

INTRODUCTION = """\
REST API of a multi-vendor store: shops, products, orders, reviews, moderation, attachments, analytics and AI-written
product descriptions.

**Requests.** Paths begin with `/api`; a trailing slash is ignored. Bodies are JSON in UTF-8 unless an operation says
otherwise. Times are ISO 8601 in UTC. Money is a number of major units (`12.5`) in the `currency` of its record.

**Authentication.** `POST /api/token` returns a short-lived access token and a refresh token. Send the access token or
an API key as `Authorization: Bearer ...`. Operations that list an empty security requirement need no credentials. Roles
are `CUSTOMER`, `STAFF`, `STORE_OWNER`, `MODERATOR` and `SUPER_ADMIN`; each operation says who may call it.

**Lists** are an array or a page with `data` and the keys of the paginator. All lists take `limit`, `page`, `search`,
`orderBy` and `with`, which adds related records to each row.

**Caching.** Public reads have an `ETag`. Send it as `If-None-Match`: while nothing has changed, the response is 304
without a body.

**Errors** are JSON with `message`, `code` and `request_id`; a 422 adds `errors` by field. Rate-limited responses have
`X-RateLimit-*` headers, and a 429 or 503 says in `Retry-After` when to try again.

**Retries.** A POST with an `Idempotency-Key` header is carried out once; sending it again within a day returns the
first response with `Idempotent-Replayed: true`.
"""
# Fields that mean the same in every record and have no text of their own.
FIELD_TEXTS = {
    "id": "Unique id.",
    "created_at": "When the record was created.",
    "updated_at": "When the record was last changed.",
}


def describe_common_fields(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Describe the fields of FIELD_TEXTS. A drf-spectacular post-processing hook."""
    for schema in result["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            if name in FIELD_TEXTS:
                field.setdefault("description", FIELD_TEXTS[name])
    return result


def describe_path_parameter(parameter: dict[str, Any], view: Any) -> None:
    """Add the description, bounds and example of a path parameter, which follow from the view that looks it up."""
    name, schema = parameter["name"], parameter["schema"]
    lookup_field = getattr(view, "lookup_field", "pk")
    is_lookup = name in ("id", lookup_field, getattr(view, "lookup_url_kwarg", None))
    model = getattr(getattr(view, "queryset", None), "model", None)
    noun = str(model._meta.verbose_name) if is_lookup and model and lookup_field == "pk" else name.removesuffix("_id")
    if schema["type"] == "integer":
        parameter["description"] = f"Id of the {noun}."
        parameter["schema"] = schema | {"minimum": 1, "maximum": MAX_ID, "example": 7}
    else:
        slug_field = str(getattr(view, "slug_field", "slug")).replace("_", " ")
        parameter["description"] = f"Id or {slug_field} of the {noun}."
        parameter["schema"] = schema | {"maxLength": 255, "example": "7"}
