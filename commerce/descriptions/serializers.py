"""The wire shapes of descriptions and their drafts."""

from typing import Any

from rest_framework import serializers

from commerce.catalog.models import Product
from commerce.descriptions.jobs import MOST_PRODUCTS, Wishes
from commerce.descriptions.models import DescriptionDraft, DescriptionJob, JobItem
from commerce.descriptions.prompts import Brief
from commerce.descriptions.services import LONGEST_TEXT
from shared.api.fields import IdField
from shared.api.relations import RelationsSerializer

MOST_KEYWORDS = 20
LONGEST_KEYWORD = 64
LANGUAGE = r"\A[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z"


class WishesSerializer(serializers.Serializer[Any]):
    """How a description should be."""

    keywords = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_KEYWORD), max_length=MOST_KEYWORDS, default=list
    )
    tone = serializers.CharField(max_length=32, default="", allow_blank=True)
    language = serializers.RegexField(LANGUAGE, default="en", help_text="As in en, pt-BR.")
    max_words = serializers.IntegerField(min_value=10, max_value=200, required=False)


class DescriptionRequestSerializer(WishesSerializer):
    """What is asked: a product's name, or in `prompt` a whole request in one's own words."""

    product_name = serializers.CharField(max_length=255, required=False, help_text="Required unless prompt is given.")
    prompt = serializers.CharField(max_length=1000, required=False, help_text="Used when product_name is absent.")
    product_id = serializers.IntegerField(min_value=1, required=False, help_text="Saves the text as a draft of it.")
    stream = serializers.BooleanField(
        default=False, help_text="true: server-sent events with the text as it is written."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "product_name" not in attrs and "prompt" not in attrs:
            raise serializers.ValidationError({"product_name": ["The name of the product is required."]})
        return attrs

    def brief(self) -> Brief:
        """The validated request, as the prompt takes it."""
        asked = self.validated_data
        return Brief(
            product_name=asked.get("product_name", ""),
            request="" if "product_name" in asked else asked["prompt"],
            keywords=tuple(asked["keywords"]),
            tone=asked["tone"],
            language=asked["language"],
            max_words=asked.get("max_words"),
        )


class AllowanceSerializer(serializers.Serializer[Any]):
    """What a shop may still ask for today. `limit` and `left` are null where there is no limit."""

    limit = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    left = serializers.IntegerField(allow_null=True)
    resets_at = serializers.DateTimeField()


class AllowanceQuerySerializer(serializers.Serializer[Any]):
    product_id = IdField(required=False, help_text="That of the shop of this product; else of your first shop.")


class DescriptionSerializer(serializers.Serializer[Any]):
    """What is answered. `result` is the same text, under the name that older clients read."""

    description = serializers.CharField()
    status = serializers.ChoiceField(choices=["success"])
    result = serializers.CharField()
    draft_id = serializers.IntegerField(required=False, help_text="Only when product_id was given.")


class DraftProductSerializer(serializers.ModelSerializer[Product]):
    class Meta:
        model = Product
        fields = ["id", "name", "slug", "description", "shop_id"]


class DraftSerializer(RelationsSerializer):
    """`written` is what the model wrote, `text` what became of it."""

    keywords = serializers.ListField(child=serializers.CharField(), read_only=True)
    product = DraftProductSerializer(read_only=True)

    class Meta:
        model = DescriptionDraft
        fields = [
            "id", "product_id", "author_id", "state", "text", "written", "model", "tone", "language", "keywords",
            "max_words", "created_at", "edited_at", "decided_at", "decided_by_id", "product",
        ]  # fmt: skip
        relations = ["product"]


class DraftTextSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=LONGEST_TEXT)


class AcceptDraftSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=LONGEST_TEXT, required=False, allow_blank=True, help_text="In place of the draft's own."
    )
    unless_changed = serializers.BooleanField(
        default=False, help_text="true: 409 if the product got another description after the draft was asked for."
    )


class NewJobSerializer(WishesSerializer):
    """Without `language` each description is in its product's."""

    product_ids = serializers.ListField(child=IdField(), min_length=1, max_length=MOST_PRODUCTS)
    language = serializers.RegexField(LANGUAGE, required=False, help_text="As in en, pt-BR.")

    def wishes(self) -> Wishes:
        asked = self.validated_data
        return Wishes(
            keywords=tuple(asked["keywords"]),
            tone=asked["tone"],
            language=asked.get("language", ""),
            max_words=asked.get("max_words"),
        )


class JobSerializer(RelationsSerializer):
    """`written` and `failed` only grow, and are `total` when it is completed. `error`: why it failed as a whole."""

    keywords = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = DescriptionJob
        fields = [
            "id", "author_id", "state", "total", "written", "failed", "error", "tone", "language", "keywords",
            "max_words", "model", "created_at", "cancelled_at", "ended_at",
        ]  # fmt: skip


class JobItemSerializer(serializers.ModelSerializer[JobItem]):
    class Meta:
        model = JobItem
        fields = ["product_id", "state", "draft_id", "error"]


class JobRecordSerializer(JobSerializer):
    items = JobItemSerializer(many=True, read_only=True)

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "items"]


class BatchToldSerializer(serializers.Serializer[Any]):
    """What is looked at in a message of the model server."""

    data = serializers.DictField(help_text="With `batch_id`.")  # type: ignore[assignment]
