"""Descriptions for many products at once, and the model server's word that they are written."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view
from rest_framework.generics import GenericAPIView, ListAPIView, RetrieveAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.descriptions import jobs, webhooks
from commerce.descriptions.filters import JobFilters
from commerce.descriptions.models import DescriptionJob
from commerce.descriptions.serializers import BatchToldSerializer, JobRecordSerializer, JobSerializer, NewJobSerializer
from shared.accounts.permissions import HasRole, asker
from shared.accounts.public_view import PublicView
from shared.api.pagination import PagedList

SHOP_PEOPLE = HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")


class OfJobs(GenericAPIView[DescriptionJob]):
    permission_classes = [SHOP_PEOPLE]
    filterset_class = JobFilters

    def get_queryset(self) -> "QuerySet[DescriptionJob]":
        user = asker(self.request)
        return DescriptionJob.objects.for_user(user) if user else DescriptionJob.objects.none()


@extend_schema_view(get=extend_schema(operation_id="description_jobs", tags=["AI"], summary="List jobs"))
class JobListView(OfJobs, ListAPIView[DescriptionJob]):
    """Those that you asked for, newest first."""

    serializer_class = JobSerializer
    pagination_class = PagedList

    @extend_schema(
        operation_id="create_description_job",
        tags=["AI"],
        summary="Have many descriptions written",
        request=NewJobSerializer,
        responses={201: JobSerializer},
    )
    def post(self, request: Request) -> Response:
        """A draft for each of up to 200 products of your shops, written in the background. They count in the shops'
        allowances at once; those that fail are given back."""
        body = NewJobSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        job = jobs.create_job(
            author=request.auth.user,
            product_ids=body.validated_data["product_ids"],
            wishes=body.wishes(),
            now=timezone.now(),
        )
        return Response(self.get_serializer(job).data, status=201)


@extend_schema_view(get=extend_schema(operation_id="description_job", tags=["AI"], summary="Read a job's progress"))
class JobView(OfJobs, RetrieveAPIView[DescriptionJob]):
    """With what became of each product."""

    serializer_class = JobRecordSerializer

    def get_object(self) -> DescriptionJob:
        job: DescriptionJob = super().get_object()
        jobs.keep_going(job=job, now=timezone.now())
        return job


class CancelJobView(OfJobs):
    serializer_class = JobSerializer

    @extend_schema(
        operation_id="cancel_description_job",
        tags=["AI"],
        summary="Cancel a job",
        request=None,
        responses=JobSerializer,
    )
    def post(self, request: Request, **path: Any) -> Response:
        """Drafts that are written stay; the others do not count. It ends in a moment. One that has ended is 409."""
        job = jobs.cancel_job(author=request.auth.user, job_id=path["pk"], now=timezone.now())
        job.refresh_from_db()
        return Response(self.get_serializer(job).data)


class WebhookView(PublicView):
    """For the model server alone, which signs what it sends (Standard Webhooks); others are 400."""

    @extend_schema(
        operation_id="description_webhook",
        tags=["AI"],
        summary="Told by the model server that a batch has ended",
        request=BatchToldSerializer,
        responses=OpenApiTypes.BOOL,
        examples=[
            OpenApiExample("told", value={"data": {"batch_id": "batch_9f86d081884c"}}, request_only=True),
            OpenApiExample("taken", value=True, response_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        webhooks.receive(body=request._request.body, headers=request.headers, now=timezone.now())
        return Response(True)
