"""What views for people without a token have in common."""

from rest_framework.permissions import AllowAny
from rest_framework.views import APIView

from shared.api.idempotency.store import IdempotencyMode
from shared.api.parsers import CredentialsJSONParser


class PublicView(APIView):
    """For those who have no token yet: one that is sent along, even a stale one, is ignored."""

    authentication_classes = []
    permission_classes = [AllowAny]
    parser_classes = [CredentialsJSONParser]
    idempotency = IdempotencyMode.DISABLED
