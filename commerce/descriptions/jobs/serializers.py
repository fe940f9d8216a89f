"""Serializers of jobs and of the model server's webhook messages."""

from typing import Any

from rest_framework import serializers

from commerce.descriptions.jobs.services import MAX_PRODUCTS_COUNT, DescriptionOptions
from commerce.descriptions.models import DescriptionJob, JobItem
from commerce.descriptions.serializers import OptionsSerializer
from commerce.descriptions.text.prompts import LANGUAGE_PATTERN
from shared.api.fields import IdField
from shared.api.lists.relations import RelationsSerializer


class NewJobSerializer(OptionsSerializer):
    """Request for a job."""

    product_ids = serializers.ListField(
        child=IdField(),
        min_length=1,
        max_length=MAX_PRODUCTS_COUNT,
        help_text="Products of your shops to write descriptions for.",
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, required=False, help_text="Language code of the texts. By default, each product's own."
    )

    def to_options(self) -> DescriptionOptions:
        """Return the validated options of the job."""
        data = self.validated_data
        return DescriptionOptions(
            keywords=tuple(data["keywords"]),
            tone=data["tone"],
            language=data.get("language", ""),
            max_words=data.get("max_words"),
        )


class JobSerializer(RelationsSerializer):
    """A job. The sum of `written` and `failed` only grows, and equals `total` in a completed job."""

    keywords = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Keywords of the request."
    )

    class Meta:
        model = DescriptionJob
        fields = [
            "id", "author_id", "state", "total", "written", "failed", "error", "tone", "language", "keywords",
            "max_words", "model", "created_at", "cancelled_at", "ended_at",
        ]  # fmt: skip
        extra_kwargs = {
            "author_id": {"help_text": "Id of the user who created the job."},
            "state": {"help_text": "`completed`, `cancelled` and `failed` are final."},
            "total": {"help_text": "Number of products."},
            "written": {"help_text": "Number of drafts that were written."},
            "failed": {"help_text": "Number of products that failed."},
            "model": {"help_text": "Name of the language model."},
            "cancelled_at": {"help_text": "When the job was cancelled, or null."},
            "ended_at": {"help_text": "When the job ended, or null."},
            "tone": {"help_text": "Requested tone, or an empty string."},
            "max_words": {"help_text": "Requested maximum length in words, or null."},
        }


class JobItemSerializer(serializers.ModelSerializer[JobItem]):
    """One product of a job."""

    class Meta:
        model = JobItem
        fields = ["product_id", "state", "draft_id", "error"]
        extra_kwargs = {
            "product_id": {"help_text": "Id of the product."},
            "state": {"help_text": "State of the product within the job."},
            "draft_id": {"help_text": "Id of the draft, or null until it is written."},
        }


class JobDetailSerializer(JobSerializer):
    """A job with its products."""

    items = JobItemSerializer(many=True, read_only=True, help_text="The products in the order of the request.")

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "items"]


class BatchMessageSerializer(serializers.Serializer[Any]):
    """A webhook message of the model server."""

    data = serializers.DictField(help_text="Object with the `batch_id` of the ended batch.")  # type: ignore[assignment]
