"""Views of drafts and of the daily quota."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.descriptions import drafts, quotas, schema, services
from commerce.descriptions.filters import DraftFilters
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.serializers import (
    AcceptDraftSerializer,
    DraftSerializer,
    DraftTextSerializer,
    QuotaQuerySerializer,
    QuotaSerializer,
)
from shared.accounts.permissions import HasRole
from shared.api.lists.pagination import PagePagination
from shared.api.viewsets import ApiViewSet, UpdateMixin


@schema.describe_quota
class QuotaView(APIView):
    """Usage of the daily quota."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]

    def get(self, request: Request) -> Response:
        query = QuotaQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        user, product_id = request.auth.user, query.validated_data.get("product_id")
        product = services.find_product(user=user, product_id=product_id) if product_id else None
        owner = quotas.find_owner(user=user, product=product)
        return Response(QuotaSerializer(quotas.get_status(owner=owner, now=timezone.now())).data)


@schema.describe_drafts
class DraftViewSet(UpdateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Drafts of the products of the user's shops: edited, accepted and discarded."""

    queryset = DescriptionDraft.objects.all()
    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    serializer_class = DraftSerializer
    request_serializer_classes = {"update": DraftTextSerializer, "accept": AcceptDraftSerializer}
    filterset_class = DraftFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[DescriptionDraft]":
        return DescriptionDraft.objects.managed_by(self.request.auth.user).order_by("-created_at", "-id")

    def perform_update(self, serializer: Any) -> DescriptionDraft:
        text, actor = serializer.validated_data["text"], self.request.auth.user
        return drafts.edit_draft(draft_id=serializer.instance.pk, actor=actor, text=text, now=timezone.now())

    @action(methods=["POST"], detail=True)
    def accept(self, request: Request, **path: Any) -> Response:
        fields = {"text": ""} | self.validated().validated_data
        draft = drafts.accept_draft(draft_id=path["pk"], actor=request.auth.user, **fields, now=timezone.now())
        return Response(self.represent(draft))

    @action(methods=["POST"], detail=True)
    def discard(self, request: Request, **path: Any) -> Response:
        draft = drafts.discard_draft(draft_id=path["pk"], actor=request.auth.user, now=timezone.now())
        return Response(self.represent(draft))
