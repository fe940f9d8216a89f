"""The wire shapes of reports, decisions, notices and appeals."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers

from commerce.moderation.decisions import Words
from commerce.moderation.models import AbuseReport, Appeal, Kind, Notice
from commerce.reviews.serializers import CONTENT_SERIALIZERS
from shared.accounts.models import User
from shared.api.fields import IdField
from shared.api.lists.relations import RelationsSerializer, UTCDateTimeField

LONGEST_TEXT = 2_000
KIND_HELP = "Review or Question; also in the long spelling, as in Marvel\\Database\\Models\\Review."

# A review or a question as everybody sees it.
CONTENT = PolymorphicProxySerializer(
    component_name="ReportedContent", serializers=list(CONTENT_SERIALIZERS.values()), resource_type_field_name=None
)


class ReportingUserSerializer(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = ["id", "name", "email"]


class ReportSerializer(RelationsSerializer):
    """A report, as moderators and whoever made it see it."""

    user = ReportingUserSerializer(read_only=True)

    class Meta:
        model = AbuseReport
        fields = [
            "id", "user_id", "model_type", "model_id", "message", "status", "created_at", "updated_at", "user",
        ]  # fmt: skip
        relations = ["user"]


class TargetSerializer(serializers.Serializer[Any]):
    """What is reported or decided about. Any text may be sent as its kind: of what is none, there is no content."""

    model_id = IdField()
    model_type = serializers.CharField(trim_whitespace=False, help_text=KIND_HELP)


class NewReportSerializer(TargetSerializer):
    message = serializers.CharField(max_length=LONGEST_TEXT, help_text="Why it should not be there.")


class DecisionSerializer(TargetSerializer):
    note = serializers.CharField(
        max_length=LONGEST_TEXT, required=False, allow_blank=True, help_text="For other moderators."
    )
    reason = serializers.CharField(
        max_length=LONGEST_TEXT, required=False, allow_blank=True, help_text="For the author and the reporters."
    )

    def words(self) -> Words:
        given = self.validated_data
        return Words(note=given.get("note", ""), reason=given.get("reason", ""))


class NoticeSerializer(RelationsSerializer):
    """What you are told about a decision. `appeal_until`: until when you can appeal; null where you cannot."""

    model_type = serializers.ChoiceField(source="decision.case.model_type", choices=Kind.choices, read_only=True)
    model_id = serializers.IntegerField(source="decision.case.model_id", read_only=True)
    created_at = UTCDateTimeField(source="due_at", read_only=True)

    class Meta:
        model = Notice
        fields = ["id", "kind", "title", "text", "model_type", "model_id", "appeal_until", "created_at"]


class NewAppealSerializer(serializers.Serializer[Any]):
    notice_id = IdField(help_text="The notice that told you of the removal.")
    message = serializers.CharField(max_length=LONGEST_TEXT, help_text="Why it should be there.")


class AppealSerializer(RelationsSerializer):
    """An appeal of yours. `decided_at` is null as long as it waits."""

    model_type = serializers.ChoiceField(source="case.model_type", choices=Kind.choices, read_only=True)
    model_id = serializers.IntegerField(source="case.model_id", read_only=True)

    class Meta:
        model = Appeal
        fields = ["id", "model_type", "model_id", "message", "status", "created_at", "decided_at"]
