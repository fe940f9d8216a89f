"""View of the settings of the shop."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.site_settings import schema, services
from commerce.site_settings.serializers import SettingsWriteSerializer, settings_record
from shared.accounts.permissions import HasRole, ReadOnly
from shared.api.query_params import DEFAULT_LANGUAGE, get_language
from shared.api.reads.conditional import public_read


@public_read
class SingleSettingsView(APIView):
    """The settings: public to read, written by super admins."""

    permission_classes = [ReadOnly | HasRole.of("SUPER_ADMIN")]

    def get(self, request: Request) -> Response:
        return self._answer(request, get_language(request))

    def put(self, request: Request) -> Response:
        body = SettingsWriteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        language = body.validated_data.get("language", DEFAULT_LANGUAGE)
        options = body.validated_data["options"]
        services.change_settings(actor=request.auth.user, language=language, changes=options, now=timezone.now())
        return self._answer(request, language)

    def _answer(self, request: Request, language: str) -> Response:
        site, row, languages = services.read_settings(language=language)
        return Response(settings_record(site, row, languages, request))


@schema.describe_settings
class SettingsView(SingleSettingsView):
    """The settings as a collection of one."""

    def post(self, request: Request) -> Response:
        """Do what PUT does, as panels send it."""
        return self.put(request)


@schema.describe_settings_entry
class SettingsEntryView(SingleSettingsView):
    """The settings by their id, which is always 1."""
