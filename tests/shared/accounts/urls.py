"""The routes of accounts, as the shop mounts them, and some that need a credential."""

from typing import cast

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from shared.accounts.authentication import NotAuthenticated, Principal, aauthenticate, credential_from_headers
from shared.accounts.permissions import HasPermission, HasRole


class WhoView(APIView):
    permission_classes = [IsAuthenticated]  # whatever the project's default

    def get(self, request: Request) -> Response:
        principal = cast(Principal, request.auth)
        return Response({"email": principal.user.email, "permissions": sorted(principal.permissions)})

    def post(self, request: Request) -> Response:
        return self.get(request)


class OwnersView(WhoView):
    permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]


class ManagersView(WhoView):
    permission_classes = [HasPermission.of("manage_models")]


class EitherView(WhoView):
    permission_classes = [HasRole.of("STAFF") | HasPermission.of("manage_models")]


class NotStaffView(WhoView):
    permission_classes = [HasPermission.of("run_inference") & ~HasRole.of("STAFF")]


async def who_async(request: HttpRequest) -> HttpResponse:
    credential = credential_from_headers(request.headers)
    if credential is None:
        raise NotAuthenticated
    return HttpResponse((await aauthenticate(credential)).user.email)


urlpatterns = [
    path("api/", include("shared.accounts.urls")),
    path("who", WhoView.as_view()),
    path("who-async", who_async),
    path("owners", OwnersView.as_view()),
    path("managers", ManagersView.as_view()),
    path("either", EitherView.as_view()),
    path("not-staff", NotStaffView.as_view()),
    path("admin/", admin.site.urls),
]
