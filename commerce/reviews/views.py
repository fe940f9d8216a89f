"""Reviews and questions: read by everybody, written by customers, questions answered by the shop."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.reviews import services
from commerce.reviews.filters import QuestionFilters, ReviewFilters
from commerce.reviews.models import Question, Review
from commerce.reviews.serializers import (
    AnswerSerializer,
    NewQuestionSerializer,
    NewReviewSerializer,
    QuestionSerializer,
    ReviewSerializer,
)
from shared.accounts.permissions import HasRole, ReadOnly
from shared.accounts.roles import Role
from shared.api.pagination import PagedList
from shared.api.throttles import RateLimit

READ_OR_SIGNED_IN = ReadOnly | HasRole.of(*Role)
CONTENT_WRITES = [RateLimit.of("content", "CONTENT_WRITE_LIMIT")]


def visible_reviews() -> "QuerySet[Review]":
    return Review.objects.visible().prefetch_related("photos").order_by("-created_at", "-id")


def visible_questions() -> "QuerySet[Question]":
    return Question.objects.visible().order_by("-created_at", "-id")


@extend_schema_view(get=extend_schema(operation_id="reviews", tags=["Reviews"], summary="List reviews"))
class ReviewListView(ListAPIView[Review]):
    """Newest first; of one product with `product_id`, of one shop with `shop_id`."""

    permission_classes = [READ_OR_SIGNED_IN]
    throttle_classes = CONTENT_WRITES
    serializer_class = ReviewSerializer
    filterset_class = ReviewFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Review]":
        return visible_reviews()

    @extend_schema(
        operation_id="write_review",
        tags=["Reviews"],
        summary="Review a product",
        request=NewReviewSerializer,
        responses={201: ReviewSerializer},
    )
    def post(self, request: Request) -> Response:
        """Once for each of your orders of it, and once without; a second time is 409."""
        body = NewReviewSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        review = services.write_review(user=request.auth.user, **body.validated_data, now=timezone.now())
        return Response(self.get_serializer(review).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="review", tags=["Reviews"], summary="Read a review"))
class ReviewView(RetrieveAPIView[Review]):
    permission_classes = [READ_OR_SIGNED_IN]
    serializer_class = ReviewSerializer
    filterset_class = ReviewFilters

    def get_queryset(self) -> "QuerySet[Review]":
        return visible_reviews()

    @extend_schema(
        operation_id="delete_review", tags=["Reviews"], summary="Take a review back", responses=OpenApiTypes.BOOL
    )
    def delete(self, request: Request, **path: Any) -> Response:
        """Your own; a super admin may take back any."""
        services.delete_review(review_id=self.kwargs["pk"], actor=request.auth.user, now=timezone.now())
        return Response(True)


@extend_schema_view(get=extend_schema(operation_id="questions", tags=["Questions"], summary="List questions"))
class QuestionListView(ListAPIView[Question]):
    """Newest first; about one product with `product_id`, to one shop with `shop_id`."""

    permission_classes = [READ_OR_SIGNED_IN]
    throttle_classes = CONTENT_WRITES
    serializer_class = QuestionSerializer
    filterset_class = QuestionFilters
    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[Question]":
        return visible_questions()

    @extend_schema(
        operation_id="ask_question",
        tags=["Questions"],
        summary="Ask about a product",
        request=NewQuestionSerializer,
        responses={201: QuestionSerializer},
    )
    def post(self, request: Request) -> Response:
        body = NewQuestionSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        question = services.ask_question(user=request.auth.user, **body.validated_data, now=timezone.now())
        return Response(self.get_serializer(question).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="question", tags=["Questions"], summary="Read a question"))
class QuestionView(RetrieveAPIView[Question]):
    serializer_class = QuestionSerializer
    filterset_class = QuestionFilters

    def get_permissions(self) -> list[Any]:
        allowed = (
            HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN") if self.request.method == "PUT" else READ_OR_SIGNED_IN
        )
        return [allowed()]

    def get_queryset(self) -> "QuerySet[Question]":
        return visible_questions()

    @extend_schema(
        operation_id="answer_question",
        tags=["Questions"],
        summary="Answer a question",
        request=AnswerSerializer,
        responses=QuestionSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """By the people of the shop, in the place of an earlier answer."""
        body = AnswerSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        question = services.answer_question(
            question_id=self.kwargs["pk"], **body.validated_data, actor=request.auth.user, now=timezone.now()
        )
        return Response(self.get_serializer(question).data)

    @extend_schema(
        operation_id="delete_question", tags=["Questions"], summary="Take a question back", responses=OpenApiTypes.BOOL
    )
    def delete(self, request: Request, **path: Any) -> Response:
        """Your own; a super admin may take back any."""
        services.delete_question(question_id=self.kwargs["pk"], actor=request.auth.user, now=timezone.now())
        return Response(True)
