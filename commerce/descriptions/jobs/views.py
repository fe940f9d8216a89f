"""Views of jobs and of the model server's webhook."""

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from commerce.descriptions import schema
from commerce.descriptions.filters import JobFilters
from commerce.descriptions.jobs import services, webhooks
from commerce.descriptions.jobs.serializers import JobDetailSerializer, JobSerializer, NewJobSerializer
from commerce.descriptions.models import DescriptionJob
from shared.accounts.permissions import HasRole
from shared.api.lists.pagination import PagePagination
from shared.api.viewsets import ApiViewSet, CreateMixin, PublicView


@schema.describe_jobs
class JobViewSet(CreateMixin, ListModelMixin, RetrieveModelMixin, ApiViewSet):
    """Jobs of the user, which write the descriptions of many products."""

    queryset = DescriptionJob.objects.all()
    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    serializer_class = JobSerializer
    request_serializer_classes = {"create": NewJobSerializer}
    response_serializer_classes = {"retrieve": JobDetailSerializer}
    filterset_class = JobFilters
    pagination_class = PagePagination

    def get_queryset(self) -> "QuerySet[DescriptionJob]":
        return DescriptionJob.objects.for_user(self.request.auth.user)

    def get_object(self) -> DescriptionJob:
        job: DescriptionJob = super().get_object()
        services.process_without_worker(job=job, now=timezone.now())
        return job

    def perform_create(self, serializer: Any) -> DescriptionJob:
        return services.create_job(
            author=self.request.auth.user,
            product_ids=serializer.validated_data["product_ids"],
            options=serializer.to_options(),
            now=timezone.now(),
        )

    @action(methods=["POST"], detail=True)
    def cancel(self, request: Request, **path: Any) -> Response:
        job = services.cancel_job(author=request.auth.user, job_id=path["pk"], now=timezone.now())
        job.refresh_from_db()
        return Response(self.represent(job))


@schema.describe_webhook
class WebhookView(PublicView):
    """Webhook of the model server, authenticated by its signature."""

    def post(self, request: Request) -> Response:
        webhooks.receive(body=request._request.body, headers=request.headers, now=timezone.now())
        return Response(True)
