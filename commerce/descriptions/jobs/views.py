"""Views of jobs and of the model server's webhook."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.descriptions.jobs import services, webhooks
from commerce.descriptions.jobs.filters import JobFilters
from commerce.descriptions.jobs.serializers import (
    BatchMessageSerializer,
    JobDetailSerializer,
    JobSerializer,
    NewJobSerializer,
)
from commerce.descriptions.models import DescriptionJob
from shared.accounts.permissions import HasRole, current_user
from shared.accounts.public_view import PublicView
from shared.api.lists.pagination import PagePagination

SHOP_ROLES = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


class BaseJobView(GenericAPIView[DescriptionJob]):
    permission_classes = [SHOP_ROLES]
    filterset_class = JobFilters

    def get_queryset(self) -> "QuerySet[DescriptionJob]":
        user = current_user(self.request)
        return DescriptionJob.objects.for_user(user) if user else DescriptionJob.objects.none()


@extend_schema_view(get=extend_schema(operation_id="description_jobs", tags=["AI"], summary="List jobs"))
class JobListView(BaseJobView, ListAPIView[DescriptionJob]):
    serializer_class = JobSerializer
    pagination_class = PagePagination

    @extend_schema(
        operation_id="create_description_job",
        tags=["AI"],
        summary="Write many descriptions",
        request=NewJobSerializer,
        responses={201: JobSerializer},
    )
    def post(self, request: Request) -> Response:
        body = NewJobSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = services.create_job(
            author=request.auth.user,
            product_ids=body.validated_data["product_ids"],
            options=body.to_options(),
            now=timezone.now(),
        )
        return Response(self.get_serializer(job).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="description_job", tags=["AI"], summary="Read a job"))
class JobView(BaseJobView, RetrieveAPIView[DescriptionJob]):
    serializer_class = JobDetailSerializer

    def get_object(self) -> DescriptionJob:
        job: DescriptionJob = super().get_object()
        services.process_without_worker(job=job, now=timezone.now())
        return job


class CancelJobView(BaseJobView):
    serializer_class = JobSerializer

    @extend_schema(
        operation_id="cancel_description_job",
        tags=["AI"],
        summary="Cancel a job",
        request=None,
        responses=JobSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        job = services.cancel_job(author=request.auth.user, job_id=path["pk"], now=timezone.now())
        job.refresh_from_db()
        return Response(self.get_serializer(job).data)


class WebhookView(PublicView):
    @extend_schema(
        operation_id="description_webhook",
        tags=["AI"],
        summary="Receive the model server's webhook",
        request=BatchMessageSerializer,
        responses=OpenApiTypes.BOOL,
        examples=[
            OpenApiExample("Message", value={"data": {"batch_id": "batch_9f86d081884c"}}, request_only=True),
            OpenApiExample("Accepted", value=True, response_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        webhooks.receive(body=request._request.body, headers=request.headers, now=timezone.now())
        return Response(True)
