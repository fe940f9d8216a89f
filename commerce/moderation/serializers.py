"""Serializers of reports, decisions, notices and appeals."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.moderation.decisions import DecisionMessage
from commerce.moderation.models import AbuseReport, Appeal, Case, ContentKind, Decision, Notice, ReportReason, Sanction
from commerce.moderation.sanctions import MAX_DAYS
from shared.accounts.models import User
from shared.api.fields import IdField
from shared.api.lists.relations import RelationsSerializer, UTCDateTimeField

MAX_TEXT_LENGTH = 2_000
MODEL_TYPE_TEXT = "Kind of the content: Review or Question."
LEGACY_PREFIX_PATTERN = r"([Mm][Aa][Rr][Vv][Ee][Ll]\\[Dd][Aa][Tt][Aa][Bb][Aa][Ss][Ee]\\[Mm][Oo][Dd][Ee][Ll][Ss]\\)?"
CONTENT_KIND_PATTERN = rf"^{LEGACY_PREFIX_PATTERN}([Rr][Ee][Vv][Ii][Ee][Ww]|[Qq][Uu][Ee][Ss][Tt][Ii][Oo][Nn])$"
MODEL_ID_TEXT = "Id of the review or question."
MODEL_TYPE_INPUT_TEXT = (
    f"{MODEL_TYPE_TEXT} Any case, and the long form Marvel\\Database\\Models\\Review, are accepted too."
)


class ReportingUserSerializer(serializers.ModelSerializer[User]):
    """The user who made a report."""

    class Meta:
        model = User
        fields = ["id", "name", "email"]
        extra_kwargs = {
            "name": {"help_text": "Name of the user."},
            "email": {"help_text": "E-mail address of the user."},
        }


class ReportSerializer(RelationsSerializer):
    """A report, for moderators and for the user who made it."""

    reason = serializers.CharField(
        source="reason.code", read_only=True, allow_null=True, help_text="Code of the reason, or null."
    )
    user = ReportingUserSerializer(read_only=True, help_text="User who reported. Only with `with=user`.")

    class Meta:
        model = AbuseReport
        fields = [
            "id", "user_id", "model_type", "model_id", "reason", "message", "status", "created_at", "updated_at",
            "user",
        ]  # fmt: skip
        relations = ["user"]
        extra_kwargs = {
            "user_id": {"help_text": "Id of the user who reported."},
            "model_type": {"help_text": MODEL_TYPE_TEXT},
            "model_id": {"help_text": MODEL_ID_TEXT},
            "message": {"help_text": "Explanation that the user gave."},
            "status": {"help_text": "`withdrawn`: the author deleted the content before a decision."},
        }


@extend_schema_field({"type": "string", "pattern": CONTENT_KIND_PATTERN, "example": "Review"})
class ContentKindField(serializers.CharField):
    """Kind of content, of which any other text is 404."""


class ContentKeySerializer(serializers.Serializer[Any]):
    """The key of a review or question. Any text is valid as `model_type`: another kind is 404, not 422."""

    model_id = IdField(help_text=MODEL_ID_TEXT)
    model_type = ContentKindField(trim_whitespace=False, help_text=MODEL_TYPE_INPUT_TEXT)


@extend_schema_field({"type": "string", "maxLength": 32, "example": "spam"})
class ReasonField(serializers.CharField):
    """Code of an active reason, whose value is the reason. Any other is a validation error that names the codes."""

    def to_internal_value(self, data: Any) -> Any:
        code = super().to_internal_value(data)
        reasons = {reason.code: reason for reason in ReportReason.objects.filter(is_active=True)}
        if code not in reasons:
            raise serializers.ValidationError(f"There is no reason {code[:40]!r}. Send one of {', '.join(reasons)}.")
        return reasons[code]


class ReportReasonSerializer(serializers.ModelSerializer[ReportReason]):
    """A reason that reporters can choose."""

    class Meta:
        model = ReportReason
        fields = ["code", "name"]
        extra_kwargs = {
            "code": {"help_text": "What a report names it by."},
            "name": {"help_text": "Name to show to reporters."},
        }


class NewReportSerializer(ContentKeySerializer):
    """Body of a new report."""

    message = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Why the content should be removed.")
    reason = ReasonField(required=False, allow_null=True, help_text="Code of a reason, from GET /report-reasons.")


class DecisionMessageSerializer(serializers.Serializer[Any]):
    """Texts of a decision."""

    note = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, allow_blank=True, help_text="Note for other moderators."
    )
    reason = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, allow_blank=True, help_text="Reason for the author and reporters."
    )

    def message(self) -> DecisionMessage:
        return DecisionMessage(note=self.validated_data.get("note", ""), reason=self.validated_data.get("reason", ""))


class DecisionSerializer(DecisionMessageSerializer, ContentKeySerializer):
    """Body of a decision about a review or question."""

    def decision(self) -> dict[str, Any]:
        """Return the arguments of the services that decide."""
        data = self.validated_data
        return {"model_id": data["model_id"], "model_type": data["model_type"], "message": self.message()}


class CaseClaimSerializer(serializers.Serializer[Case]):
    """The claim of a case that is valid now."""

    moderator_id = serializers.IntegerField(
        source="claimed_by_id", read_only=True, help_text="Id of the moderator who looks at it: you, or somebody else."
    )
    until = UTCDateTimeField(
        source="claimed_until", read_only=True, help_text="When the claim ends unless it is extended."
    )


class ModeratorSerializer(serializers.ModelSerializer[User]):
    """The moderator of a decision."""

    class Meta:
        model = User
        fields = ["id", "name"]
        extra_kwargs = {"name": {"help_text": "Name of the moderator."}}


class DecisionRecordSerializer(RelationsSerializer):
    """A decision of a moderator or a rule, for moderators."""

    model_type = serializers.ChoiceField(
        source="case.model_type", choices=ContentKind.choices, read_only=True, help_text=MODEL_TYPE_TEXT
    )
    model_id = serializers.IntegerField(source="case.model_id", read_only=True, help_text=MODEL_ID_TEXT)
    can_be_undone = serializers.SerializerMethodField(help_text="Whether it is young enough to be undone.")
    content = serializers.DictField(read_only=True, help_text="The content as it was before the decision.")
    moderator = ModeratorSerializer(
        read_only=True, allow_null=True, help_text="Moderator, or null for a rule. Only with `with=moderator`."
    )

    class Meta:
        model = Decision
        fields = [
            "id", "action", "model_type", "model_id", "author_id", "moderator_id", "note", "reason", "reports_count",
            "content", "created_at", "undo_until", "undone_at", "can_be_undone", "moderator",
        ]  # fmt: skip
        relations = ["moderator"]
        extra_kwargs = {
            "action": {"help_text": "What was decided."},
            "author_id": {"help_text": "Id of the user who wrote the content."},
            "moderator_id": {"help_text": "Id of the moderator; null if a rule decided."},
            "note": {"help_text": "Note for other moderators."},
            "reason": {"help_text": "Reason for the author and the reporters."},
            "reports_count": {"help_text": "Number of reports that were decided on."},
            "created_at": {"help_text": "When it was decided."},
            "undo_until": {"help_text": "When the time to undo it ends."},
            "undone_at": {"help_text": "When it was undone, or null."},
        }

    def get_can_be_undone(self, decision: Decision) -> bool:
        return decision.can_be_undone(timezone.now())


class NoticeSerializer(RelationsSerializer):
    """A notice to the signed-in user."""

    model_type = serializers.ChoiceField(
        source="decision.case.model_type",
        choices=ContentKind.choices,
        read_only=True,
        allow_null=True,
        help_text=f"{MODEL_TYPE_TEXT} Null for a sanction.",
    )
    model_id = serializers.IntegerField(
        source="decision.case.model_id", read_only=True, allow_null=True, help_text=MODEL_ID_TEXT
    )
    created_at = UTCDateTimeField(source="due_at", read_only=True, help_text="When the decision became final.")

    class Meta:
        model = Notice
        fields = ["id", "kind", "title", "text", "model_type", "model_id", "sanction_id", "appeal_until", "created_at"]
        extra_kwargs = {
            "kind": {"help_text": "What the notice is about."},
            "sanction_id": {"help_text": "Id of the sanction that the notice is about, or null."},
            "title": {"help_text": "Title in English."},
            "text": {"help_text": "Plain text in English with the reason."},
            "appeal_until": {"help_text": "When the time to appeal ends, or null where no appeal is possible."},
        }


class NewAppealSerializer(serializers.Serializer[Any]):
    """Body of a new appeal."""

    notice_id = IdField(help_text="Id of the notice about the removal.")
    message = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Why the content should be restored.")


class AppealSerializer(RelationsSerializer):
    """An appeal of the signed-in user."""

    model_type = serializers.ChoiceField(
        source="case.model_type", choices=ContentKind.choices, read_only=True, help_text=MODEL_TYPE_TEXT
    )
    model_id = serializers.IntegerField(source="case.model_id", read_only=True, help_text=MODEL_ID_TEXT)

    class Meta:
        model = Appeal
        fields = ["id", "model_type", "model_id", "message", "status", "created_at", "decided_at"]
        extra_kwargs = {
            "message": {"help_text": "Reason that you gave."},
            "status": {"help_text": "`kept`: the content stays down. `overturned`: it was restored."},
            "decided_at": {"help_text": "When a moderator decided, or null."},
        }


class NewSanctionSerializer(serializers.Serializer[Any]):
    """Body of a new sanction."""

    user_id = IdField(help_text="Id of the user.")
    kind = serializers.ChoiceField(choices=Sanction.Kind.choices, help_text="What the user may not do.")
    days = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MAX_DAYS, help_text="Only of a limit and a suspension."
    )
    reason = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Reason for the user.")
    note = serializers.CharField(
        max_length=MAX_TEXT_LENGTH, required=False, allow_blank=True, help_text="Note for other moderators."
    )


class SanctionAppealSerializer(serializers.Serializer[Any]):
    """Body of an appeal against a sanction."""

    message = serializers.CharField(max_length=MAX_TEXT_LENGTH, help_text="Why the sanction should be lifted.")


class SanctionSerializer(RelationsSerializer):
    """A sanction, for the user who has it."""

    class Meta:
        model = Sanction
        fields = [
            "id", "user_id", "kind", "reason", "created_at", "ends_at", "lifted_at", "appeal", "appeal_message",
            "appealed_at",
        ]  # fmt: skip
        extra_kwargs = {
            "user_id": {"help_text": "Id of the user."},
            "kind": {"help_text": "What the user may not do."},
            "reason": {"help_text": "Reason for the user."},
            "ends_at": {"help_text": "When it ends on its own; null for a warning and a ban."},
            "lifted_at": {"help_text": "When a moderator lifted it, or null."},
            "appeal": {"help_text": "State of the user's appeal; empty without one."},
            "appeal_message": {"help_text": "Why the user appealed."},
            "appealed_at": {"help_text": "When the user appealed, or null."},
            "note": {"help_text": "Note for other moderators."},
            "moderator_id": {"help_text": "Id of the moderator."},
        }


class ModeratedSanctionSerializer(SanctionSerializer):
    """A sanction, for moderators."""

    class Meta(SanctionSerializer.Meta):
        fields = [*SanctionSerializer.Meta.fields, "note", "moderator_id"]
