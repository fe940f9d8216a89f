"""The wire shapes of attributes."""

from typing import Any

from rest_framework import serializers

from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.values import MOST_OF_AN_ATTRIBUTE
from commerce.shops.records import ShopNameSerializer
from shared.api.fields import IdField
from shared.api.relations import RelationsSerializer

LANGUAGE = r"\A[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})?\Z"


class ValueRecordSerializer(RelationsSerializer):
    language = serializers.CharField(source="attribute.language", read_only=True)

    class Meta:
        model = AttributeValue
        fields = ["id", "value", "meta", "slug", "language"]


class AttributeSerializer(RelationsSerializer):
    """An attribute in one language, with its values. `shop` on `with=shop`."""

    translated_languages = serializers.SerializerMethodField(help_text="Those in which this attribute exists.")
    values = ValueRecordSerializer(many=True, read_only=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Attribute
        fields = [
            "id",
            "name",
            "slug",
            "shop_id",
            "language",
            "translated_languages",
            "values",
            "shop",
            "created_at",
            "updated_at",
        ]
        relations = ["shop"]

    def get_translated_languages(self, attribute: Attribute) -> list[str]:
        return sorted(attribute.languages.split(","))  # type: ignore[attr-defined]


class ValueSerializer(serializers.Serializer[Any]):
    id = IdField(required=False, allow_null=True, help_text="Of a value to keep; without it the value is new.")
    value = serializers.CharField(max_length=255)
    meta = serializers.CharField(max_length=1000, required=False, allow_blank=True, allow_null=True)

    def validate_meta(self, meta: str | None) -> str:
        return meta or ""


class ValuesField(serializers.ListSerializer[Any]):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=ValueSerializer(), max_length=MOST_OF_AN_ATTRIBUTE, **kwargs)


class AttributeChangesSerializer(serializers.Serializer[Any]):
    """What of an attribute may change; what is left out stays. `values` is the whole list: values that it does not
    name by their id are deleted."""

    name = serializers.CharField(max_length=255, required=False)
    shop_id = IdField(required=False)
    values = ValuesField(required=False)


class NewAttributeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255)
    shop_id = IdField()
    language = serializers.RegexField(LANGUAGE, max_length=16, default="en", help_text="As in en, pt-BR.")
    slug = serializers.CharField(
        max_length=255, required=False, allow_blank=True, help_text="For a translation: the slug of the original."
    )
    values = ValuesField(required=False)


class ImportSerializer(serializers.Serializer[Any]):
    shop_id = IdField()
    csv = serializers.FileField(help_text="Columns: name, slug, language, value, meta; a line a value.")


class ImportResultSerializer(serializers.Serializer[Any]):
    attributes = serializers.IntegerField(help_text="New ones.")
    values = serializers.IntegerField(help_text="New and changed ones.")
