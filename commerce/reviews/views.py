"""Views of reviews and questions."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin

from commerce.reviews import schema, services
from commerce.reviews.filters import QuestionFilters, ReviewFilters
from commerce.reviews.models import Question, Review
from commerce.reviews.serializers import (
    AnswerSerializer,
    NewQuestionSerializer,
    NewReviewSerializer,
    QuestionSerializer,
    ReviewSerializer,
)
from shared.accounts.permissions import HasRole, IsSignedIn, ReadOnly
from shared.api.limits.throttling import RateLimitThrottle
from shared.api.lists.pagination import PagePagination
from shared.api.reads.conditional import public_read
from shared.api.viewsets import ApiViewSet, CreateMixin, DestroyMixin, UpdateMixin

CONTENT_WRITES = [RateLimitThrottle.of("content", "CONTENT_WRITE_LIMIT")]


@schema.describe_reviews
@public_read
class ReviewViewSet(CreateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Reviews: public to read, written and deleted by their authors."""

    queryset = Review.objects.all()
    permission_classes = [ReadOnly | IsSignedIn]
    throttle_classes = CONTENT_WRITES
    serializer_class = ReviewSerializer
    request_serializer_classes = {"create": NewReviewSerializer}
    filterset_class = ReviewFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Review]":
        if self.action == "destroy":
            return Review.objects.for_author(self.request.auth.user)
        return Review.objects.visible().prefetch_related("photos").order_by("-created_at", "-id")

    def perform_create(self, serializer: Any) -> Review:
        return services.write_review(user=self.request.auth.user, **serializer.validated_data, now=timezone.now())

    def perform_destroy(self, instance: Review) -> None:
        services.delete_review(review_id=instance.pk, actor=self.request.auth.user, now=timezone.now())


@schema.describe_questions
@public_read
class QuestionViewSet(CreateMixin, UpdateMixin, DestroyMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Questions: public to read, asked and deleted by their authors, answered by the staff of the shop."""

    queryset = Question.objects.all()
    permission_classes = [ReadOnly | IsSignedIn]
    action_permission_classes = {"update": [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]}
    throttle_classes = CONTENT_WRITES
    serializer_class = QuestionSerializer
    request_serializer_classes = {"create": NewQuestionSerializer, "update": AnswerSerializer}
    filterset_class = QuestionFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Question]":
        if self.action == "destroy":
            return Question.objects.for_author(self.request.auth.user)
        if self.action == "update":
            return Question.objects.managed_by(self.request.auth.user)
        return Question.objects.visible().order_by("-created_at", "-id")

    def perform_create(self, serializer: Any) -> Question:
        return services.ask_question(user=self.request.auth.user, **serializer.validated_data, now=timezone.now())

    def perform_update(self, serializer: Any) -> Question:
        return services.answer_question(
            question_id=serializer.instance.pk,
            **serializer.validated_data,
            actor=self.request.auth.user,
            now=timezone.now(),
        )

    def perform_destroy(self, instance: Question) -> None:
        services.delete_question(question_id=instance.pk, actor=self.request.auth.user, now=timezone.now())


@schema.describe_my_questions
class MyQuestionViewSet(ListModelMixin, ApiViewSet):
    """Questions that the user asked."""

    queryset = Question.objects.all()
    permission_classes = [IsSignedIn]
    serializer_class = QuestionSerializer
    filterset_class = QuestionFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[Question]":
        own = Question.objects.not_deleted().filter(user=self.request.auth.user)
        return own.order_by("-created_at", "-id")
