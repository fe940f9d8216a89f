"""Base class of views that need no credentials."""

from rest_framework.permissions import AllowAny
from rest_framework.views import APIView

from shared.api.idempotency.store import IdempotencyMode
from shared.api.parsers import CredentialsJSONParser


class PublicView(APIView):
    """View that needs no credentials and ignores any that are sent, even expired ones."""

    authentication_classes = []
    permission_classes = [AllowAny]
    parser_classes = [CredentialsJSONParser]
    idempotency = IdempotencyMode.DISABLED
