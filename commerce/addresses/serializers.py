"""The wire shapes of addresses."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.addresses.advice import Advice, advise
from commerce.addresses.models import Address
from commerce.addresses.validators import validate_address
from shared.api.query import LARGEST_INTEGER
from shared.api.relations import RelationsSerializer


class AdviceSerializer(serializers.Serializer[Any]):
    valid = serializers.BooleanField()
    errors = serializers.DictField(  # type: ignore[assignment]
        child=serializers.CharField(), help_text="By the name of the field."
    )
    suggested = serializers.DictField(
        allow_null=True, help_text="As the country's rules would write it; null if invalid."
    )


class AddressSerializer(RelationsSerializer):
    """An address. `validation` is there only when it was asked for, and is advice: nothing is refused for it."""

    address = serializers.DictField(help_text="As it was sent.")
    validation = serializers.SerializerMethodField()

    class Meta:
        model = Address
        fields = ["id", "title", "type", "default", "address", "customer_id", "created_at", "updated_at", "validation"]
        relations = ["validation"]

    def asked_for(self) -> set[str]:
        return {"validation"} if self.context.get("validates") else set()

    @extend_schema_field(AdviceSerializer)
    def get_validation(self, row: Address) -> Advice:
        return advise(row.address)


class AddressChangesSerializer(serializers.ModelSerializer[Address]):
    """What of an address may change; what is left out stays. Whose it is never changes."""

    address = serializers.DictField(
        required=False, validators=[validate_address], help_text="Any fields, up to 16 KiB."
    )

    class Meta:
        model = Address
        fields = ["title", "type", "default", "address"]
        validators: list[Any] = []  # the service and the database see to the one default
        extra_kwargs = {name: {"required": False} for name in fields}


class NewAddressSerializer(serializers.ModelSerializer[Address]):
    """What makes an address."""

    address = serializers.DictField(validators=[validate_address], help_text="Any fields, up to 16 KiB.")
    customer_id = serializers.IntegerField(min_value=1, max_value=LARGEST_INTEGER, help_text="Your own id.")
    validate = serializers.BooleanField(  # type: ignore[assignment]
        default=False, help_text="true: the answer carries `validation`."
    )

    class Meta:
        model = Address
        fields = ["title", "type", "default", "address", "customer_id", "validate"]
        validators: list[Any] = []
