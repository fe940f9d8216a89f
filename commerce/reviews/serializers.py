"""The wire shapes of reviews and questions."""

from typing import Any

from rest_framework import serializers

from commerce.attachments.records import AttachmentRecordSerializer
from commerce.catalog.models import Product
from commerce.reviews.models import Question, Review
from commerce.shops.images import ImageReferenceField
from commerce.shops.records import ShopNameSerializer
from shared.accounts.models import User
from shared.api.query import LARGEST_INTEGER
from shared.api.relations import RelationsSerializer

LONGEST_TEXT = 5_000
MOST_PHOTOS = 10


class AuthorSerializer(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = ["id", "name"]


class ReviewedProductSerializer(serializers.ModelSerializer[Product]):
    image = AttachmentRecordSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Product
        fields = ["id", "name", "slug", "image"]


class ReviewSerializer(RelationsSerializer):
    """A review as everybody sees it."""

    photos = AttachmentRecordSerializer(many=True, read_only=True)
    user = AuthorSerializer(read_only=True)
    product = ReviewedProductSerializer(read_only=True, allow_null=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Review
        fields = [
            "id", "rating", "comment", "user_id", "product_id", "shop_id", "order_id", "photos",
            "abusive_reports_count", "created_at", "updated_at", "user", "product", "shop",
        ]  # fmt: skip
        relations = ["user", "product", "shop"]


class QuestionSerializer(RelationsSerializer):
    """A question as everybody sees it; `answer` is empty until the shop has answered."""

    user = AuthorSerializer(read_only=True)
    product = ReviewedProductSerializer(read_only=True, allow_null=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Question
        fields = [
            "id", "question", "answer", "answered_at", "user_id", "product_id", "shop_id", "abusive_reports_count",
            "created_at", "updated_at", "user", "product", "shop",
        ]  # fmt: skip
        relations = ["user", "product", "shop"]


class NewReviewSerializer(serializers.Serializer[Any]):
    """A review as its author sends it. `photos` are attachments that the author uploaded, named by their `id`."""

    product_id = serializers.IntegerField(min_value=1, max_value=LARGEST_INTEGER)
    order_id = serializers.IntegerField(
        min_value=1, max_value=LARGEST_INTEGER, required=False, allow_null=True, help_text="An order of yours with it."
    )
    rating = serializers.IntegerField(min_value=1, max_value=5)
    comment = serializers.CharField(max_length=LONGEST_TEXT, required=False, allow_blank=True)
    photos = serializers.ListField(
        child=ImageReferenceField(), required=False, max_length=MOST_PHOTOS, source="photo_ids"
    )


class NewQuestionSerializer(serializers.Serializer[Any]):
    product_id = serializers.IntegerField(min_value=1, max_value=LARGEST_INTEGER)
    question = serializers.CharField(max_length=LONGEST_TEXT)


class AnswerSerializer(serializers.Serializer[Any]):
    answer = serializers.CharField(max_length=LONGEST_TEXT)
