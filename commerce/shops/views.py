"""GET /me."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.shops.serializers import MeSerializer


class MeView(APIView):
    @extend_schema(operation_id="me", tags=["Accounts"], summary="Who is signed in", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        return Response(MeSerializer(request.auth.user).data)
