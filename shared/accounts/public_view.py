"""What views for people without a token have in common."""

from rest_framework.permissions import AllowAny
from rest_framework.views import APIView

from shared.api.idempotency import Idempotency
from shared.api.json import CredentialsJSONParser


class PublicView(APIView):
    """For those who have no token yet: one that is sent along, even a stale one, is ignored."""

    authentication_classes = []
    permission_classes = [AllowAny]
    parser_classes = [CredentialsJSONParser]
    idempotency = Idempotency.NEVER
