"""Error body that shows every part of a Problem, and a small site whose views fail in every way."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError, connection
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from shared.api.errors import ApiError, Problem


def error_body(problem: Problem, *, path: str, request_id: str) -> dict[str, Any]:
    return {
        "status": problem.status,
        "code": problem.code,
        "message": problem.message,
        "errors": problem.errors,
        "details": problem.details,
        "path": path,
        "request_id": request_id,
    }


class LineSerializer(serializers.Serializer[Any]):
    quantity = serializers.IntegerField(min_value=1)


class OrderSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=5)
    lines = LineSerializer(many=True)
    extra = serializers.JSONField(required=False)


class OrderView(APIView):
    authentication_classes = []
    permission_classes = [AllowAny]

    def post(self, request: Request) -> Response:
        serializer = OrderSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        return Response(serializer.validated_data)


class PrivateView(APIView):
    def get(self, request: Request) -> Response:
        return Response({"user": request.user.pk})


def fails(request: HttpRequest, how: str) -> HttpResponse:
    raise {
        "api": ApiError(409, "It is taken.", details={"by": "another"}, headers={"Retry-After": "7"}),
        "missing": Http404("secret words"),
        "denied": PermissionDenied("secret words"),
        "suspicious": SuspiciousOperation("secret words"),
        "unforeseen": RuntimeError("secret words"),
        "busy": OperationalError("database is locked"),
    }[how]


async def fails_async(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret words")


def asks_a_missing_table(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM no_such_table")
    return HttpResponse()


urlpatterns = [
    path("orders", OrderView.as_view()),
    path("private", PrivateView.as_view()),
    path("fails-async", fails_async),
    path("fails/<how>", fails),
    path("missing-table", asks_a_missing_table),
    path("admin/", admin.site.urls),
]
