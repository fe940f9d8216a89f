"""Views of drafts and of the daily quota."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.descriptions import drafts, quotas, services
from commerce.descriptions.filters import DraftFilters
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.serializers import (
    AcceptDraftSerializer,
    DraftSerializer,
    DraftTextSerializer,
    QuotaQuerySerializer,
    QuotaSerializer,
)
from shared.accounts.permissions import HasRole, current_user
from shared.api.lists.pagination import PagePagination

SHOP_ROLES = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


class QuotaView(APIView):
    permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]

    @extend_schema(
        operation_id="description_allowance",
        tags=["AI"],
        summary="Read the daily quota",
        parameters=[QuotaQuerySerializer],
        responses=QuotaSerializer,
    )
    def get(self, request: Request) -> Response:
        query = QuotaQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        user, product_id = request.auth.user, query.validated_data.get("product_id")
        product = services.find_product(user=user, product_id=product_id) if product_id else None
        owner = quotas.find_owner(user=user, product=product)
        return Response(QuotaSerializer(quotas.get_status(owner=owner, now=timezone.now())).data)


class BaseDraftView(GenericAPIView[DescriptionDraft]):
    permission_classes = [SHOP_ROLES]
    serializer_class = DraftSerializer
    filterset_class = DraftFilters

    def get_queryset(self) -> "QuerySet[DescriptionDraft]":
        user = current_user(self.request)
        return DescriptionDraft.objects.managed_by(user) if user else DescriptionDraft.objects.none()

    def record(self, draft: DescriptionDraft) -> Response:
        return Response(self.get_serializer(draft).data)


@extend_schema_view(get=extend_schema(operation_id="description_drafts", tags=["AI"], summary="List drafts"))
class DraftListView(BaseDraftView, ListAPIView[DescriptionDraft]):
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[DescriptionDraft]":
        return super().get_queryset().order_by("-created_at", "-id")


@extend_schema_view(get=extend_schema(operation_id="description_draft", tags=["AI"], summary="Read a draft"))
class DraftView(BaseDraftView, RetrieveAPIView[DescriptionDraft]):
    @extend_schema(
        operation_id="change_description_draft",
        tags=["AI"],
        summary="Edit a draft",
        request=DraftTextSerializer,
        responses=DraftSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        body = DraftTextSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        text, actor = body.validated_data["text"], request.auth.user
        return self.record(drafts.edit_draft(draft_id=path["pk"], actor=actor, text=text, now=timezone.now()))


class AcceptDraftView(BaseDraftView):
    @extend_schema(
        operation_id="accept_description_draft",
        tags=["AI"],
        summary="Make a draft the product's description",
        request=AcceptDraftSerializer,
        responses=DraftSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        body = AcceptDraftSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        draft = drafts.accept_draft(
            draft_id=path["pk"],
            actor=request.auth.user,
            text=body.validated_data.get("text", ""),
            unless_changed=body.validated_data["unless_changed"],
            now=timezone.now(),
        )
        return self.record(draft)


class DiscardDraftView(BaseDraftView):
    @extend_schema(
        operation_id="discard_description_draft",
        tags=["AI"],
        summary="Discard a draft",
        request=None,
        responses=DraftSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        return self.record(drafts.discard_draft(draft_id=path["pk"], actor=request.auth.user, now=timezone.now()))
