"""OpenAPI texts of the settings of the shop."""

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view

from commerce.site_settings.serializers import SettingsSerializer, SettingsWriteSerializer
from shared.api.query_params import MAX_LANGUAGE_LENGTH

TAGS = ["Settings"]
LANGUAGE = OpenApiParameter(
    "language",
    {"type": "string", "maxLength": MAX_LANGUAGE_LENGTH, "default": "en", "example": "de"},
    description="Code of the language.",
)
CHANGE = (
    "Changes the options that you send, in `language`, and returns all. Options that the shop does not know are stored "
    "for clients and have no other effect. `isUnderMaintenance`, the times of `maintenance` and `languages` hold in "
    "every language. During maintenance all requests but those of super admins, sign-ins and this path are 503 with "
    "the code `maintenance`; every process of the server knows within 5 seconds. Returns 422 for another `currency` "
    "than that of the server, for an unknown image, and for more than 64 KiB of options. Only super admins may call "
    "this."
)

READ = (
    "Returns title, currency, logo, texts for search engines, contact details, maintenance mode and languages of the "
    "shop, in `language` or else in English. No credentials are needed."
)

describe_settings = extend_schema_view(
    get=extend_schema(
        operation_id="settings",
        tags=TAGS,
        summary="Get the shop's settings",
        description=READ,
        parameters=[LANGUAGE],
        responses=SettingsSerializer,
    ),
    put=extend_schema(
        operation_id="change_settings",
        tags=TAGS,
        summary="Change the shop's settings",
        description=CHANGE,
        request=SettingsWriteSerializer,
        responses=SettingsSerializer,
    ),
    post=extend_schema(
        operation_id="store_settings",
        tags=TAGS,
        summary="Store the shop's settings",
        description=f"Does what `PUT` does. {CHANGE}",
        request=SettingsWriteSerializer,
        responses=SettingsSerializer,
    ),
)

describe_settings_entry = extend_schema_view(
    get=extend_schema(
        operation_id="settings_entry",
        tags=TAGS,
        summary="Get the shop's settings by id",
        description=f"Does what `GET /api/settings` does: there is one set of settings, whose id is 1. {READ}",
        parameters=[LANGUAGE],
        responses=SettingsSerializer,
    ),
    put=extend_schema(
        operation_id="change_settings_entry",
        tags=TAGS,
        summary="Change the shop's settings by id",
        description=f"Does what `PUT /api/settings` does: there is one set of settings, whose id is 1. {CHANGE}",
        request=SettingsWriteSerializer,
        responses=SettingsSerializer,
    ),
)
