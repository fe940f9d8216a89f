"""Serializers of the settings of the shop.

Options that have no field here are kept as they were sent: panels store switches of their own in them.
"""

from datetime import datetime
from typing import Any

from django.conf import settings
from rest_framework import serializers

from commerce.attachments.serializers import AttachmentRecordSerializer, attachment_record
from commerce.shops.fields import ImageReferenceField, SmallObjectField
from commerce.site_settings.models import Site, SiteOptions
from shared.api.money import decimal_places
from shared.api.query_params import DEFAULT_LANGUAGE

LANGUAGE_PATTERN = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})?\Z"
LOCALE_PATTERN = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,2}\Z"
MAX_SOCIALS = 50
MAX_OPTION_COUNT = 200
NO_CONTACT = {"contact": "", "emailAddress": "", "website": "", "location": None, "socials": list[Any]()}


class KeepingSerializer(serializers.Serializer[Any]):
    """A JSON object whose other keys are kept as they were sent."""

    def to_internal_value(self, data: Any) -> Any:
        validated = super().to_internal_value(data)
        if len(data) > MAX_OPTION_COUNT:
            raise serializers.ValidationError(f"Send at most {MAX_OPTION_COUNT} keys.")
        return {name: value for name, value in data.items() if name not in self.fields} | validated


def text(help_text: str, max_length: int = 255) -> Any:
    return serializers.CharField(
        required=False, allow_blank=True, allow_null=True, max_length=max_length, help_text=help_text
    )


class CurrencyOptionsSerializer(KeepingSerializer):
    """Format in which clients write amounts."""

    formation = serializers.RegexField(
        LOCALE_PATTERN, max_length=35, required=False, help_text="Locale whose separators are used, as in en-US."
    )
    fractions = serializers.IntegerField(
        min_value=0, max_value=4, required=False, help_text="Number of decimal places."
    )


class SeoSerializer(KeepingSerializer):
    """Texts for search engines and previews of links."""

    metaTitle = text("Title for search engines.")
    metaDescription = text("Description for search engines.", 2000)
    metaTags = text("Keywords.", 2000)
    canonicalUrl = text("URL of the storefront.", 2000)
    ogTitle = text("Title of previews.")
    ogDescription = text("Description of previews.", 2000)
    ogImage = SmallObjectField(required=False, allow_null=True, help_text="Image of previews, as it was sent.")
    twitterHandle = text("Account at X.")
    twitterCardType = text("Kind of card at X.")


class SocialSerializer(KeepingSerializer):
    """Profile in a social network."""

    icon = text("Name of an icon of the client.")
    url = text("URL of the profile.", 2000)


class ContactDetailsSerializer(KeepingSerializer):
    """Ways to reach the shop."""

    contact = text("Telephone number.")
    emailAddress = text("E-mail address.")
    website = text("URL of a website.", 2000)
    location = SmallObjectField(required=False, allow_null=True, help_text="Place, as it was sent.")
    socials = SocialSerializer(  # type: ignore[call-arg]
        many=True, required=False, max_length=MAX_SOCIALS, help_text="Social networks."
    )


class MaintenanceSerializer(KeepingSerializer):
    """Texts shown while the shop is under maintenance, and its times, which hold in every language."""

    title = text("Title.")
    description = text("Text, which the API's errors have too.", 2000)
    start = serializers.DateTimeField(
        required=False, allow_null=True, help_text="When it starts; null: as soon as `isUnderMaintenance` is true."
    )
    until = serializers.DateTimeField(
        required=False, allow_null=True, help_text="When it ends; null: when `isUnderMaintenance` is false again."
    )


class OptionsWriteSerializer(KeepingSerializer):
    """The options to change. Those that are missing stay, and any others are stored for clients."""

    siteTitle = text("Name of the shop.")
    siteSubtitle = text("Line below the name.")
    currency = serializers.CharField(
        required=False, max_length=3, help_text="Currency of the shop, which is the setting `STOA_CURRENCY`."
    )
    currencyOptions = CurrencyOptionsSerializer(required=False, help_text="How clients write amounts.")
    logo = ImageReferenceField(required=False, allow_null=True, help_text="Uploaded image, or null.")
    seo = SeoSerializer(required=False, help_text="Texts for search engines.")
    contactDetails = ContactDetailsSerializer(required=False, help_text="How to reach the shop.")
    isUnderMaintenance = serializers.BooleanField(
        required=False, help_text="Whether the API answers super admins only. It holds in every language."
    )
    maintenance = MaintenanceSerializer(required=False, help_text="Texts and times of the maintenance.")
    languages = serializers.ListField(
        child=serializers.RegexField(LANGUAGE_PATTERN, max_length=16),
        required=False,
        min_length=1,
        max_length=100,
        help_text="Codes of the languages that storefronts offer. It holds in every language.",
    )

    def validate_currency(self, value: str) -> str:
        if value != settings.CURRENCY:
            raise serializers.ValidationError(
                f"The currency is {settings.CURRENCY}. It changes with the setting STOA_CURRENCY of the server only."
            )
        return value


class SettingsWriteSerializer(serializers.Serializer[Any]):
    """Body of a change of the settings."""

    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, required=False, help_text="Code of the language. Default: en."
    )
    options = OptionsWriteSerializer(help_text="Options to change.")


class OptionsSerializer(OptionsWriteSerializer):
    """All options, with defaults for those that nobody has set."""

    logo = AttachmentRecordSerializer(allow_null=True, help_text="Logo, or null.")  # type: ignore[assignment]


class SettingsSerializer(serializers.Serializer[Any]):
    """Settings of the shop in one language."""

    id = serializers.IntegerField(help_text="Always 1: there is one set of settings.")
    language = serializers.CharField(help_text="Language of the options: English where there are none in yours.")
    translated_languages = serializers.ListField(
        child=serializers.CharField(), help_text="Languages that have options of their own."
    )
    options = OptionsSerializer(help_text="The options.")
    created_at = serializers.DateTimeField(allow_null=True, help_text="When they were first stored.")
    updated_at = serializers.DateTimeField(allow_null=True, help_text="When they were last changed.")


def _time(value: datetime | None) -> Any:
    return None if value is None else serializers.DateTimeField().to_representation(value)


def settings_record(site: Site, row: SiteOptions, translated: list[str], request: Any) -> dict[str, Any]:
    """Return the body of a response."""
    return {
        "id": 1,
        "language": row.language,
        "translated_languages": translated,
        "options": _options(site, row, translated, request),
        "created_at": _time(row.created_at),
        "updated_at": _time(max(filter(None, (row.updated_at, site.updated_at)), default=None)),
    }


def _options(site: Site, row: SiteOptions, translated: list[str], request: Any) -> dict[str, Any]:
    stored: dict[str, Any] = row.options
    locale = "en-US" if row.language == DEFAULT_LANGUAGE else row.language
    currency = {"formation": locale, "fractions": decimal_places(settings.CURRENCY)}
    texts: dict[str, Any] = {"siteTitle": "", "siteSubtitle": "", "currency": settings.CURRENCY}
    times = {"start": _time(site.maintenance_start), "until": _time(site.maintenance_until)}
    return (
        texts
        | stored
        | {
            "currencyOptions": currency | stored.get("currencyOptions", {}),
            "logo": attachment_record(row.logo, request) if row.logo else None,
            "seo": dict.fromkeys(SeoSerializer().fields) | stored.get("seo", {}),
            "contactDetails": NO_CONTACT | stored.get("contactDetails", {}),
            "isUnderMaintenance": site.is_under_maintenance,
            "maintenance": {"title": "", "description": ""} | stored.get("maintenance", {}) | times,
            "languages": site.languages or sorted({DEFAULT_LANGUAGE, *translated}),
        }
    )
