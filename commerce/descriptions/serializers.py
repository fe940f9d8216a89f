"""Serializers of description requests, drafts and quotas."""

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.text.plain_text import MAX_DESCRIPTION_LENGTH
from commerce.descriptions.text.prompts import (
    LANGUAGE_PATTERN,
    MAX_KEYWORD_LENGTH,
    MAX_KEYWORDS_COUNT,
    DescriptionRequest,
    can_write,
)
from shared.api.fields import IdField
from shared.api.lists.relations import RelationsSerializer
from shared.api.query_params import MAX_INTEGER


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": MAX_INTEGER, "example": 7})
class ProductIdField(serializers.IntegerField):
    """Id of a product, of which any larger number is 404."""


@extend_schema_field({"type": "boolean", "example": True})
class MarkField(serializers.BooleanField):
    """A mark that is true or absent."""


class OptionsSerializer(serializers.Serializer[Any]):
    """Style of a description."""

    keywords = serializers.ListField(
        child=serializers.CharField(max_length=MAX_KEYWORD_LENGTH),
        max_length=MAX_KEYWORDS_COUNT,
        default=list,
        help_text="Keywords that the description should mention.",
    )
    tone = serializers.CharField(
        max_length=32, default="", allow_blank=True, help_text="Tone of the text, such as friendly or formal."
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, default="en", help_text="Language code of the text, such as en or pt-BR."
    )

    def validate_language(self, language: str) -> str:
        model = settings.DESCRIPTIONS_MODEL
        if not can_write(language, model):
            raise serializers.ValidationError(f"{model} writes English only. Send one of: en. Received: {language}.")
        return language

    max_words = serializers.IntegerField(
        min_value=10, max_value=200, required=False, help_text="Approximate maximum length in words."
    )


class DescriptionRequestSerializer(OptionsSerializer):
    """Request for a description by a product's name, or by a free prompt."""

    product_name = serializers.CharField(
        max_length=255, required=False, help_text="Name of the product. Required without a prompt."
    )
    prompt = serializers.CharField(
        max_length=1000, required=False, help_text="Free request to the model, used without product_name."
    )
    product_id = ProductIdField(min_value=1, required=False, help_text="Product that the text is saved for as a draft.")
    stream = serializers.BooleanField(
        default=False,
        help_text="Whether to stream the text as server-sent events: checked and sentence by sentence with "
        "product_name, and as it is written with a prompt.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "product_name" not in attrs and "prompt" not in attrs:
            raise serializers.ValidationError({"product_name": ["Send product_name or prompt."]})
        return attrs

    def to_request(self) -> DescriptionRequest:
        """Return the validated request for the prompt."""
        data = self.validated_data
        return DescriptionRequest(
            product_name=data.get("product_name", ""),
            prompt="" if "product_name" in data else data["prompt"],
            keywords=tuple(data["keywords"]),
            tone=data["tone"],
            language=data["language"],
            max_words=data.get("max_words"),
        )


class QuotaSerializer(serializers.Serializer[Any]):
    """Usage of the daily quota."""

    limit = serializers.IntegerField(
        allow_null=True, help_text="Descriptions per day, or null where there is no limit."
    )
    used = serializers.IntegerField(help_text="Descriptions requested today.")
    left = serializers.IntegerField(allow_null=True, help_text="Descriptions left today, or null without a limit.")
    resets_at = serializers.DateTimeField(help_text="Time at which the quota resets: the next midnight UTC.")


class QuotaQuerySerializer(serializers.Serializer[Any]):
    """Query parameters of the quota."""

    product_id = IdField(
        required=False, help_text="Product whose shop's quota is returned. By default, that of your first shop."
    )


class DescriptionSerializer(serializers.Serializer[Any]):
    """A written description."""

    description = serializers.CharField(help_text="The description as plain text.")
    status = serializers.ChoiceField(choices=["success"], help_text="Always `success`.")
    result = serializers.CharField(help_text="The same text, under the name that older clients read.")
    fallback = MarkField(
        required=False,
        help_text="Always true: no text of the model kept to the facts, so this one only states them. Else absent.",
    )
    unchecked = MarkField(
        required=False,
        help_text="Always true: the answer to a free prompt, which no rule has checked. Absent with product_name.",
    )
    draft_id = serializers.IntegerField(
        required=False, help_text="Identifier of the saved draft. Only present where product_id was sent."
    )


class DraftProductSerializer(serializers.ModelSerializer[Product]):
    """The product within a draft."""

    class Meta:
        model = Product
        fields = ["id", "name", "slug", "description", "shop_id"]
        extra_kwargs = {
            "name": {"help_text": "Name of the product."},
            "slug": {"help_text": "Slug of the product."},
            "description": {"help_text": "Current description of the product."},
            "shop_id": {"help_text": "Id of the shop that sells the product."},
        }


class DraftSerializer(RelationsSerializer):
    """A draft."""

    keywords = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Keywords of the request."
    )
    product = DraftProductSerializer(read_only=True, help_text="The product. Only present with `with=product`.")

    class Meta:
        model = DescriptionDraft
        fields = [
            "id", "product_id", "author_id", "state", "text", "written", "is_fallback", "model", "tone", "language",
            "keywords", "max_words", "created_at", "edited_at", "decided_at", "decided_by_id", "product",
        ]  # fmt: skip
        relations = ["product"]
        extra_kwargs = {
            "product_id": {"help_text": "Id of the product."},
            "state": {"help_text": "`accepted` and `discarded` are final."},
            "text": {"help_text": "Text of the draft as it was last edited."},
            "written": {"help_text": "Text as the language model wrote it."},
            "is_fallback": {
                "help_text": "Whether the text only states the given facts: none of the model's kept to them."
            },
            "language": {"help_text": "Language code of the text."},
            "edited_at": {"help_text": "When the text was last edited, or null."},
            "decided_at": {"help_text": "When the draft was accepted or discarded, or null."},
            "decided_by_id": {"help_text": "Id of the user who accepted or discarded it, or null."},
            "tone": {"help_text": "Requested tone, or an empty string."},
            "max_words": {"help_text": "Requested maximum length in words, or null."},
        }


class DraftTextSerializer(serializers.Serializer[Any]):
    """Request to edit a draft."""

    text = serializers.CharField(max_length=MAX_DESCRIPTION_LENGTH, help_text="New text of the draft.")


class AcceptDraftSerializer(serializers.Serializer[Any]):
    """Request to accept a draft."""

    text = serializers.CharField(
        max_length=MAX_DESCRIPTION_LENGTH,
        required=False,
        allow_blank=True,
        help_text="Text to use in place of the draft's own.",
    )
    unless_changed = serializers.BooleanField(
        default=False,
        help_text="Whether to answer 409 if the product's description was changed after the draft was requested.",
    )
