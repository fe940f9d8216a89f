"""Serializers of reviews and questions."""

from typing import Any

from rest_framework import serializers

from commerce.attachments.serializers import AttachmentRecordSerializer
from commerce.catalog.models import Product
from commerce.reviews.models import Question, Review
from commerce.shops.fields import ImageReferenceField
from commerce.shops.serializers import ShopSummarySerializer
from shared.accounts.models import User
from shared.api.lists.relations import RelationsSerializer, UTCDateTimeField
from shared.api.query_params import MAX_INTEGER

MAX_TEXT_LENGTH = 5_000
MAX_PHOTOS = 10


class AuthorSerializer(serializers.ModelSerializer[User]):
    """The author of a review or question."""

    class Meta:
        model = User
        fields = ["id", "name"]
        extra_kwargs = {"name": {"help_text": "Name of the author."}}


class ReviewedProductSerializer(serializers.ModelSerializer[Product]):
    """The product of a review or question."""

    image = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Main image of the product, or null.")

    class Meta:
        model = Product
        fields = ["id", "name", "slug", "image"]
        extra_kwargs = {
            "name": {"help_text": "Name of the product."},
            "slug": {"help_text": "Slug of the product."},
        }


class ContentReportSerializer(serializers.Serializer[Any]):
    """An abuse report inside the review or question that it is about; moderation, with the model, imports reviews."""

    id = serializers.IntegerField(help_text="Id of the report.")
    user_id = serializers.IntegerField(help_text="Id of the user who reported.")
    model_type = serializers.CharField(help_text="Kind of the content: Review or Question.")
    model_id = serializers.IntegerField(help_text="Id of the review or question.")
    message = serializers.CharField(help_text="Reason that the user gave.")
    status = serializers.CharField(help_text="Status of the report.")
    created_at = UTCDateTimeField(help_text="When the user reported.")
    updated_at = UTCDateTimeField(help_text="When the report last changed.")
    user = AuthorSerializer(help_text="User who reported.")


class ContentSerializer(RelationsSerializer):
    """The fields that reviews and questions have in common."""

    user = AuthorSerializer(read_only=True, help_text="Author. Only with `with=user`.")
    product = ReviewedProductSerializer(read_only=True, allow_null=True, help_text="Only with `with=product`.")
    shop = ShopSummarySerializer(read_only=True, allow_null=True, help_text="Shop. Only with `with=shop`.")
    abusive_reports = ContentReportSerializer(
        many=True,
        read_only=True,
        allow_null=True,
        help_text="The newest 20 abuse reports; null unless you may read reports. Only with `with=abusive_reports`.",
    )


CONTENT_RELATIONS = ["user", "product", "shop", "abusive_reports"]
CONTENT_HELP_TEXTS = {
    "user_id": {"help_text": "Id of the author."},
    "product_id": {"help_text": "Id of the product."},
    "shop_id": {"help_text": "Id of the shop that sells the product."},
    "abusive_reports_count": {"help_text": "Number of abuse reports."},
}


class ReviewSerializer(ContentSerializer):
    """A review as everybody sees it."""

    photos = AttachmentRecordSerializer(many=True, read_only=True, help_text="Photos of the product.")

    class Meta:
        model = Review
        fields = [
            "id", "rating", "comment", "user_id", "product_id", "shop_id", "order_id", "photos",
            "abusive_reports_count", "created_at", "updated_at", "user", "product", "shop",
            "abusive_reports",
        ]  # fmt: skip
        relations = CONTENT_RELATIONS
        extra_kwargs = CONTENT_HELP_TEXTS | {
            "rating": {"help_text": "Stars from 1 to 5.", "min_value": 1, "max_value": 5},
            "comment": {"help_text": "Text of the review."},
            "order_id": {"help_text": "Id of the order with the product, or null."},
        }


class QuestionSerializer(ContentSerializer):
    """A question as everybody sees it."""

    class Meta:
        model = Question
        fields = [
            "id", "question", "answer", "answered_at", "user_id", "product_id", "shop_id", "abusive_reports_count",
            "created_at", "updated_at", "user", "product", "shop",
            "abusive_reports",
        ]  # fmt: skip
        relations = CONTENT_RELATIONS
        extra_kwargs = CONTENT_HELP_TEXTS | {
            "question": {"help_text": "Text of the question."},
            "answer": {"help_text": "Answer of the shop; empty until there is one."},
            "answered_at": {"help_text": "When the shop answered, or null."},
        }


class NewReviewSerializer(serializers.Serializer[Any]):
    product_id = serializers.IntegerField(
        min_value=1, max_value=MAX_INTEGER, help_text="Id of a product that is for sale."
    )
    order_id = serializers.IntegerField(
        min_value=1,
        max_value=MAX_INTEGER,
        required=False,
        allow_null=True,
        help_text="Id of an order of yours with the product.",
    )
    rating = serializers.IntegerField(min_value=1, max_value=5, help_text="Stars from 1 to 5.")
    comment = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, allow_blank=True, help_text="Text of the review."
    )
    photos = serializers.ListField(
        child=ImageReferenceField(),
        required=False,
        max_length=MAX_PHOTOS,
        source="photo_ids",
        help_text="Photos: images that you uploaded.",
    )


class NewQuestionSerializer(serializers.Serializer[Any]):
    product_id = serializers.IntegerField(
        min_value=1, max_value=MAX_INTEGER, help_text="Id of a product that is for sale."
    )
    question = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Text of the question.")


class AnswerSerializer(serializers.Serializer[Any]):
    answer = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Answer of the shop.")


CONTENT_SERIALIZERS = {Review: ReviewSerializer, Question: QuestionSerializer}


def serialize_content(content: Review | Question) -> dict[str, Any]:
    """Return a review or question as everybody sees it, without relations."""
    data: dict[str, Any] = CONTENT_SERIALIZERS[type(content)](content).data
    return data
