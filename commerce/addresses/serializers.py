"""Serializers of addresses."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.country_rules import AddressCheck, check_address
from commerce.addresses.models import Address
from commerce.addresses.validators import validate_address, validate_changed_address
from shared.api.lists.relations import RelationsSerializer
from shared.api.query_params import MAX_INTEGER

FIELD_HELP_TEXTS = {
    "title": {"help_text": "Label of the address, as in Home."},
    "type": {"help_text": "Purpose of the address."},
    "default": {"help_text": "Whether this is the default address of its type; replaces the previous default."},
}
ADDRESS_HELP_TEXT = "The address: any JSON object of up to 16 KiB, returned as it was sent."


class AddressCheckSerializer(serializers.Serializer[Any]):
    """Result of the check against the postal rules of the country."""

    valid = serializers.BooleanField(help_text="Whether the address follows the rules.")
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="Message for each field that breaks a rule, by its name."
    )
    suggested = serializers.DictField(
        allow_null=True, help_text="Address as the rules would write it; null if it is invalid."
    )


class AddressSerializer(RelationsSerializer):
    """An address of the signed-in user."""

    address = serializers.DictField(help_text=ADDRESS_HELP_TEXT)
    validation = serializers.SerializerMethodField(
        help_text="Check against the postal rules of the country. Only if it was requested; never an error."
    )

    class Meta:
        model = Address
        fields = ["id", "title", "type", "default", "address", "customer_id", "created_at", "updated_at", "validation"]
        relations = ["validation"]
        extra_kwargs = FIELD_HELP_TEXTS | {"customer_id": {"help_text": "Id of the user whose address it is."}}

    def requested_relations(self) -> set[str]:
        return {"validation"} if self.context.get("validates") else set()

    @extend_schema_field(AddressCheckSerializer)
    def get_validation(self, row: Address) -> AddressCheck:
        return check_address(row.address)


class AddressChangesSerializer(serializers.ModelSerializer[Address]):
    """The fields of an address that may change. Its customer never changes."""

    address = serializers.DictField(
        required=False,
        validators=[validate_changed_address],
        help_text=f"{ADDRESS_HELP_TEXT} An empty object changes nothing.",
    )

    class Meta:
        model = Address
        fields = ["title", "type", "default", "address"]
        validators: list[Any] = []  # the service replaces the previous default before the constraint is checked
        extra_kwargs = {name: kwargs | {"required": False} for name, kwargs in FIELD_HELP_TEXTS.items()}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in attrs.items() if name != "address" or value}


class NewAddressSerializer(serializers.ModelSerializer[Address]):
    address = serializers.DictField(validators=[validate_address], help_text=ADDRESS_HELP_TEXT)
    customer_id = serializers.IntegerField(
        min_value=1, max_value=MAX_INTEGER, help_text="Your own id. Super admins may send any customer's."
    )
    validate = serializers.BooleanField(  # type: ignore[assignment]
        default=False, help_text="Whether the response has `validation`."
    )

    class Meta:
        model = Address
        fields = ["title", "type", "default", "address", "customer_id", "validate"]
        validators: list[Any] = []
        extra_kwargs = FIELD_HELP_TEXTS
