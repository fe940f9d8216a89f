"""Serializers of attributes, their values and imports."""

from typing import Any

from rest_framework import serializers

from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.values import MAX_VALUES_PER_ATTRIBUTE
from commerce.shops.serializers import ShopSummarySerializer
from shared.api.fields import IdField, SlugInputField
from shared.api.lists.relations import RelationsSerializer

LANGUAGE_PATTERN = r"\A[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})?\Z"


class ValueSerializer(RelationsSerializer):
    """A value of an attribute."""

    language = serializers.CharField(
        source="attribute.language", read_only=True, help_text="Code of the attribute's language."
    )

    class Meta:
        model = AttributeValue
        fields = ["id", "value", "meta", "slug", "language"]
        extra_kwargs = {
            "value": {"help_text": "Text of the value, as in Red."},
            "meta": {"help_text": "Free text that belongs to the value, such as a color code."},
            "slug": {"help_text": "The value in lower case with hyphens."},
        }


class AttributeSerializer(RelationsSerializer):
    """An attribute in one language, with its values."""

    translated_languages = serializers.SerializerMethodField(
        help_text="Codes of the languages in which the attribute exists."
    )
    values = ValueSerializer(many=True, read_only=True, help_text="Values of the attribute.")
    shop = ShopSummarySerializer(read_only=True, allow_null=True, help_text="Shop. Only with `with=shop`.")

    class Meta:
        model = Attribute
        fields = [
            "id", "name", "slug", "shop_id", "language", "translated_languages", "values", "shop", "created_at",
            "updated_at",
        ]  # fmt: skip
        relations = ["shop"]
        extra_kwargs = {
            "name": {"help_text": "Name of the attribute, as in Color."},
            "slug": {"help_text": "Name in URLs, the same for all translations."},
            "shop_id": {"help_text": "Id of the shop."},
            "language": {"help_text": "Code of the language."},
        }

    def get_translated_languages(self, attribute: Attribute) -> list[str]:
        return sorted(attribute.languages.split(","))  # type: ignore[attr-defined]


class ValueWriteSerializer(serializers.Serializer[Any]):
    """A value in a request. One with an `id` is changed, one without is new."""

    id = IdField(required=False, allow_null=True, help_text="Id of a value to keep; missing or null for a new one.")
    value = serializers.CharField(max_length=255, help_text="Text of the value, as in Red.")
    meta = serializers.CharField(
        max_length=1000,
        required=False,
        allow_blank=True,
        allow_null=True,
        help_text="Free text that belongs to the value, such as a color code.",
    )

    def validate_meta(self, meta: str | None) -> str:
        return meta or ""


class ValueListField(serializers.ListSerializer[Any]):
    """All values of an attribute."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=ValueWriteSerializer(), max_length=MAX_VALUES_PER_ATTRIBUTE, **kwargs)


class AttributeChangesSerializer(serializers.Serializer[Any]):
    """The fields of an attribute that its owner may change."""

    name = serializers.CharField(max_length=255, required=False, help_text="Name of the attribute.")
    shop_id = IdField(required=False, help_text="Id of another shop of yours, to move the attribute there.")
    values = ValueListField(required=False, help_text="All values; those that are not in the list are deleted.")


class NewAttributeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255, help_text="Name of the attribute, as in Color.")
    shop_id = IdField(help_text="Id of a shop of yours.")
    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, default="en", help_text="Code of the language, as in en or pt-BR."
    )
    slug = SlugInputField(max_length=255, help_text="For a translation: the slug of the original.")
    values = ValueListField(required=False, help_text="Values of the attribute.")


class AttributeImportSerializer(serializers.Serializer[Any]):
    shop_id = IdField(help_text="Id of a shop of yours.")
    csv = serializers.FileField(
        help_text="CSV file in UTF-8 with the columns name, slug, language, value and meta, one line for each value."
    )


class ImportCountsSerializer(serializers.Serializer[Any]):
    """Counts of the attributes and values that an import changed."""

    attributes = serializers.IntegerField(min_value=0, help_text="Number of new attributes.")
    values = serializers.IntegerField(min_value=0, help_text="Number of new and changed values.")
