"""The drafts of a shop's products: read, edited, accepted, discarded."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.descriptions import drafts
from commerce.descriptions.filters import DraftFilters
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.serializers import AcceptDraftSerializer, DraftSerializer, DraftTextSerializer
from shared.accounts.permissions import HasRole, asker
from shared.api.pagination import PagedList

SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


class OfDrafts(GenericAPIView[DescriptionDraft]):
    permission_classes = [SHOP_PEOPLE]
    serializer_class = DraftSerializer
    filterset_class = DraftFilters

    def get_queryset(self) -> "QuerySet[DescriptionDraft]":
        user = asker(self.request)
        return DescriptionDraft.objects.managed_by(user) if user else DescriptionDraft.objects.none()

    def record(self, draft: DescriptionDraft) -> Response:
        return Response(self.get_serializer(draft).data)


@extend_schema_view(get=extend_schema(operation_id="description_drafts", tags=["AI"], summary="List drafts"))
class DraftListView(OfDrafts, ListAPIView[DescriptionDraft]):
    """The drafts for products of your shops, newest first: what was accepted and discarded too."""

    pagination_class = PagedList

    def get_queryset(self) -> "QuerySet[DescriptionDraft]":
        return super().get_queryset().order_by("-created_at", "-id")


@extend_schema_view(get=extend_schema(operation_id="description_draft", tags=["AI"], summary="Read a draft"))
class DraftView(OfDrafts, RetrieveAPIView[DescriptionDraft]):
    """One for a product of your shops."""

    @extend_schema(
        operation_id="change_description_draft",
        tags=["AI"],
        summary="Edit a draft",
        request=DraftTextSerializer,
        responses=DraftSerializer,
    )
    def put(self, request: Request, **path: Any) -> Response:
        """Its text, as long as nobody has decided about it: then it is 409."""
        body = DraftTextSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        text, actor = body.validated_data["text"], request.auth.user
        return self.record(drafts.edit_draft(draft_id=path["pk"], actor=actor, text=text, now=timezone.now()))


class AcceptDraftView(OfDrafts):
    @extend_schema(
        operation_id="accept_description_draft",
        tags=["AI"],
        summary="Make a draft the product's description",
        request=AcceptDraftSerializer,
        responses=DraftSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        """What was there before is in the audit log. A draft that somebody has decided about is 409."""
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


class DiscardDraftView(OfDrafts):
    @extend_schema(
        operation_id="discard_description_draft",
        tags=["AI"],
        summary="Discard a draft",
        request=None,
        responses=DraftSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        """It stays in the list. One that somebody has decided about is 409."""
        return self.record(drafts.discard_draft(draft_id=path["pk"], actor=request.auth.user, now=timezone.now()))
