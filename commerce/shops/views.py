"""GET /me."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.generics import RetrieveAPIView

from commerce.shops.serializers import MeSerializer
from shared.accounts.models import User


@extend_schema(operation_id="me", tags=["Accounts"], summary="Who is signed in")
class MeView(RetrieveAPIView[Any]):
    serializer_class = MeSerializer
    http_method_names = ["get", "head"]

    def get_object(self) -> User:
        return self.request.user  # type: ignore[return-value]  # the default permission lets nobody else in
