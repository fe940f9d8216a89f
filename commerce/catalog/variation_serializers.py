"""Serializers of variations and of the attribute values that they combine."""

import json
from typing import Any

from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.attachments.serializers import AttachmentRecordSerializer
from commerce.attributes.models import Attribute, AttributeValue
from commerce.catalog.models import Variation
from commerce.catalog.variations import MAX_QUANTITY, MAX_VARIATIONS
from commerce.shops.fields import ImageReferenceField
from shared.api.fields import IdField
from shared.api.lists.relations import RelationsSerializer
from shared.api.money import MoneyField

MAX_OPTIONS = 10
MAX_LISTED_VALUES = 100  # of an attribute inside a product, which repeats it for each of its own values
MAX_LISTED_VALUES_BYTES = 2 * 1024 * 1024  # of all attributes inside the products of a response
MAX_REMOVED_VARIATIONS = 1000

VALUE_HELP_TEXTS = {
    "value": {"help_text": "Text of the value, as in Red."},
    "meta": {"help_text": "Free text that belongs to the value, such as a color code."},
    "slug": {"help_text": "The value in lower case with hyphens."},
}


class AttributeSummaryValueSerializer(serializers.ModelSerializer[AttributeValue]):
    """A value inside its attribute."""

    class Meta:
        model = AttributeValue
        fields = ["id", "value", "meta", "slug"]
        extra_kwargs = VALUE_HELP_TEXTS


class AttributeSummarySerializer(RelationsSerializer):
    """The attribute of a product's value."""

    _listed_bytes = 0  # of the response so far

    values = AttributeSummaryValueSerializer(
        many=True,
        read_only=True,
        help_text=f"The first {MAX_LISTED_VALUES} values of the attribute, or none once the response has 2 MiB of "
        "them; `GET /api/attributes` has all. Only with `with=variations.attribute.values`.",
    )

    class Meta:
        model = Attribute
        fields = ["id", "name", "slug", "shop_id", "language", "values"]
        relations = ["values"]
        extra_kwargs = {
            "name": {"help_text": "Name of the attribute, as in Color."},
            "slug": {"help_text": "Name in URLs, the same for all translations."},
            "shop_id": {"help_text": "Id of the shop."},
            "language": {"help_text": "Code of the language."},
        }

    def to_representation(self, instance: Attribute) -> dict[str, Any]:
        """Return one record for all values that share the attribute, also in memory.

        JSON repeats it, so the record has no values once MAX_LISTED_VALUES_BYTES are used up.
        """
        if instance.pk not in self._records:
            record = super().to_representation(instance)
            size = len(json.dumps(record.get("values", []), ensure_ascii=False).encode())
            self._records[instance.pk] = (record, record | {"values": []}, size)
        record, without_values, size = self._records[instance.pk]
        if "values" not in record:
            return record
        self._listed_bytes += size
        return record if self._listed_bytes <= MAX_LISTED_VALUES_BYTES else without_values

    @cached_property
    def _records(self) -> dict[int, tuple[dict[str, Any], dict[str, Any], int]]:
        return {}


class ProductValueSerializer(RelationsSerializer):
    """A value in which the variations of a product may differ."""

    attribute = AttributeSummarySerializer(
        read_only=True, allow_null=True, help_text="Attribute of the value. Only with `with=variations.attribute`."
    )

    class Meta:
        model = AttributeValue
        fields = ["id", "value", "meta", "slug", "attribute_id", "attribute"]
        relations = ["attribute"]
        extra_kwargs = VALUE_HELP_TEXTS | {"attribute_id": {"help_text": "Id of the attribute."}}


def _require_fields(serializer: serializers.Serializer[Any], attrs: dict[str, Any], *names: str) -> None:
    """Raise ValidationError for fields that are missing, which REST framework allows in all parts of a change."""
    missing = [name for name in names if name not in attrs]
    if missing:
        raise serializers.ValidationError({name: [serializer.error_messages["required"]] for name in missing})


class OptionSerializer(serializers.Serializer[Any]):
    """One option of a variation, such as size L."""

    name = serializers.CharField(max_length=255, help_text="Name of the attribute, as in Size.")
    value = serializers.CharField(max_length=255, help_text="Value of the attribute, as in L.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        _require_fields(self, attrs, "name", "value")
        return attrs


class VariationSerializer(serializers.ModelSerializer[Variation]):
    """A variation of a variable product."""

    price = MoneyField(currency_source="product.currency", read_only=True, help_text="Regular price in major units.")
    sale_price = MoneyField(
        currency_source="product.currency", read_only=True, allow_null=True, help_text="Reduced price, or null."
    )
    options = serializers.SerializerMethodField(help_text="Attribute values that this variation combines.")
    image = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Image of the variation, or null.")
    in_stock = serializers.BooleanField(read_only=True, help_text="Whether at least one piece is in stock.")

    class Meta:
        model = Variation
        fields = [
            "id", "title", "options", "image", "sku", "price", "sale_price", "quantity", "sold_quantity", "in_stock",
        ]  # fmt: skip
        extra_kwargs = {
            "title": {"help_text": "Name of the variation."},
            "sku": {"help_text": "Stock keeping unit."},
            "quantity": {"help_text": "Number of pieces in stock."},
            "sold_quantity": {"help_text": "Number of pieces sold."},
        }

    @extend_schema_field(OptionSerializer(many=True))
    def get_options(self, variation: Variation) -> list[dict[str, str]]:
        return variation.current_options


class VariationWriteSerializer(serializers.Serializer[Any]):
    """A variation in a request. One with an `id` is changed, one without is new."""

    id = IdField(required=False, allow_null=True, help_text="Id of a variation to keep; missing or null for a new one.")
    title = serializers.CharField(max_length=255, help_text="Name of the variation.")
    options = OptionSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        max_length=MAX_OPTIONS,
        help_text="Values that this variation combines, one of each attribute. Each must be in the product's "
        "`variations`; for a product without those they are free text.",
    )
    image = ImageReferenceField(
        required=False, allow_null=True, source="image_id", help_text="Image that you uploaded, or null."
    )
    sku = serializers.CharField(max_length=64, required=False, allow_blank=True, help_text="Stock keeping unit.")
    price = MoneyField(help_text="Regular price in major units of the product's currency.")
    sale_price = MoneyField(required=False, allow_null=True, help_text="Reduced price, at most `price`, or null.")
    quantity = serializers.IntegerField(
        min_value=0, max_value=MAX_QUANTITY, required=False, help_text="Number of pieces in stock."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs.get("id") is None:
            _require_fields(self, attrs, "title", "price")
        return attrs


class ValueOrVariationSerializer(VariationWriteSerializer):
    """A product's attribute value as `{"attribute_value_id": 7}`, or a whole variation in the former form."""

    attribute_value_id = IdField(
        required=False, help_text="Id of an attribute value of the shop. No other field is sent with it."
    )
    title = serializers.CharField(max_length=255, required=False, help_text="Name of the variation; required for one.")
    price = MoneyField(required=False, help_text="Regular price of a variation; required for one.")

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and "attribute_value_id" in data:
            data = {"attribute_value_id": data["attribute_value_id"]}
        return super().to_internal_value(data)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "attribute_value_id" not in attrs:
            _require_fields(self, attrs, "title", "price")
        return attrs


class VariationOptionsSerializer(serializers.Serializer[Any]):
    """Changes to the variations of a product. Variations that it does not name stay as they are."""

    upsert = VariationWriteSerializer(  # type: ignore[call-arg]
        many=True, required=False, max_length=MAX_VARIATIONS, help_text="Variations to change or to add."
    )
    delete = serializers.ListField(
        child=IdField(),
        required=False,
        max_length=MAX_REMOVED_VARIATIONS,
        help_text="Ids of variations to delete. Orders that contain them keep them.",
    )
