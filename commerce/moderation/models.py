"""Abuse reports, the case that the reports of one content are, what was decided about it, and who is told."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from commerce.shops.models import Shop
from shared.accounts.models import User


class Kind(models.TextChoices):
    """The closed list of what can be reported, and so of what a moderator can take down."""

    REVIEW = "Review"
    QUESTION = "Question"


KIND_KNOWN = Q(model_type__in=["Review", "Question"])


class ReportQuerySet(models.QuerySet["AbuseReport"]):
    def for_user(self, user: User) -> Self:
        """Those that this user made."""
        return self.filter(user=user)

    def of(self, model_type: str, model_id: int) -> Self:
        """Those of one content."""
        return self.filter(model_type=model_type, model_id=model_id)


class AbuseReport(models.Model):
    """One user's report of one piece of content."""

    Kind = Kind

    class Status(models.TextChoices):
        OPEN = "open"
        ACCEPTED = "accepted"
        WITHDRAWN = "withdrawn", "Withdrawn: the content was taken back first"

    class Standing(models.TextChoices):
        """Whether the report counts for hiding on its own, and else why it does not; as it was when it was made."""

        TRUSTED = "trusted"
        UNRELIABLE = "unreliable", "Moderators have mostly disagreed with this reporter"
        NEW_ACCOUNT = "new_account", "The account was new"
        INVOLVED = "involved", "The reporter works for the shop, or wrote the content"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="abuse_reports")
    model_type = models.CharField(max_length=32, choices=Kind.choices)
    model_id = models.BigIntegerField()
    message = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    weight = models.PositiveSmallIntegerField(default=500)  # thousandths; see trust.weight
    standing = models.CharField(max_length=16, choices=Standing.choices, default=Standing.TRUSTED)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = ReportQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "model_type", "model_id"], name="commerce_report_once_a_user"),
            models.CheckConstraint(condition=KIND_KNOWN, name="commerce_report_kind_known"),
        ]
        indexes = [
            models.Index(fields=["status", "-created_at", "-id"], name="commerce_report_newest"),
            models.Index(fields=["model_type", "model_id"], name="commerce_report_of_content"),
        ]

    def __str__(self) -> str:
        return f"Report {self.pk} of {self.model_type} {self.model_id}"


class Reporter(models.Model):
    """How often moderators agreed with one user's reports."""

    user = models.OneToOneField(User, on_delete=models.PROTECT, related_name="reporter", primary_key=True)
    agreed = models.PositiveIntegerField(default=0)
    disagreed = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.user_id}: {self.agreed} of {self.agreed + self.disagreed}"


class CaseQuerySet(models.QuerySet["Case"]):
    def waiting(self) -> Self:
        """The queue: what a moderator is to decide."""
        return self.filter(is_waiting=True)


def _queue_index(name: str, *order: str) -> models.Index:
    """One order of the queue. What it can be filtered by stands behind, so that a filter that lets few through reads
    the index and not the table."""
    filters = ["model_type", "shop", "language", "hiding", "is_brigaded", "state"]
    rest = [] if "oldest_at" in order[0] else ["oldest_at"]
    return models.Index(fields=[*order, *rest, *filters], condition=Q(is_waiting=True), name=f"commerce_queue_{name}")


def _part_index(name: str, part: Q, *first: str) -> models.Index:
    """A part of the queue, or its ages alone, to be counted without reading all of it."""
    return models.Index(
        fields=[*first, "oldest_at"], condition=Q(is_waiting=True) & part, name=f"commerce_queue_{name}"
    )


class Case(models.Model):
    """All reports of one content, as one item of the queue. Its figures are of the open ones, and change in the same
    transaction as they do."""

    class State(models.TextChoices):
        OPEN = "open", "Open: reports wait for a decision"
        APPEALED = "appealed", "Taken down, and its author has appealed"
        ACCEPTED = "accepted", "Taken down"
        REJECTED = "rejected", "Kept"
        CLOSED = "closed", "Nothing to decide"

    class Hiding(models.TextChoices):
        NONE = "", "Visible"
        AUTOMATIC = "automatic", "Hidden on its own, until a moderator looks"
        MODERATOR = "moderator", "Hidden by a moderator for now"

    model_type = models.CharField(max_length=32, choices=Kind.choices)
    model_id = models.BigIntegerField()
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="cases")
    shop = models.ForeignKey(Shop, on_delete=models.PROTECT, related_name="+", db_index=False)
    language = models.CharField(max_length=16)
    state = models.CharField(max_length=16, choices=State.choices, default=State.CLOSED)
    is_waiting = models.BooleanField(default=False)
    hiding = models.CharField(max_length=16, choices=Hiding.choices, default=Hiding.NONE, blank=True)
    # A moderator has kept it: whatever is reported from now on, it is not hidden without one.
    is_cleared = models.BooleanField(default=False)
    reports_count = models.PositiveIntegerField(default=0)
    weight = models.PositiveBigIntegerField(default=0)  # thousandths, summed over the open reports
    trusted_count = models.PositiveIntegerField(default=0)
    is_brigaded = models.BooleanField(default=False)
    newest_at = models.DateTimeField(null=True)
    oldest_at = models.DateTimeField(null=True)
    claimed_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    claimed_until = models.DateTimeField(null=True)
    last_decision = models.ForeignKey(
        "Decision", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )  # fmt: skip
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = CaseQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            # The id first: an index that begins with the kind would be taken for a way to filter the queue by kind.
            models.UniqueConstraint(fields=["model_id", "model_type"], name="commerce_case_one_a_content"),
            models.CheckConstraint(condition=KIND_KNOWN, name="commerce_case_kind_known"),
            models.CheckConstraint(
                condition=Q(is_waiting=True, state__in=["open", "appealed"])
                | Q(is_waiting=False, state__in=["accepted", "rejected", "closed"]),
                name="commerce_case_waiting_by_state",
            ),
            models.CheckConstraint(
                condition=Q(is_waiting=False) | Q(newest_at__isnull=False, oldest_at__isnull=False),
                name="commerce_case_waiting_has_age",
            ),
        ]
        indexes = [
            _queue_index("newest", "-newest_at", "-id"),
            _queue_index("oldest", "oldest_at", "id"),
            _queue_index("reports", "-reports_count", "-id"),
            _queue_index("weight", "-weight", "-id"),
            _part_index("age", Q()),
            _part_index("of_shop", Q(), "shop"),
            _part_index("hidden", ~Q(hiding=""), "hiding"),
            _part_index("brigaded", Q(is_brigaded=True)),
            _part_index("appealed", Q(state="appealed")),
        ]

    def __str__(self) -> str:
        return f"{self.model_type} {self.model_id}: {self.state}"

    def claimant(self, now: datetime) -> User | None:
        """The moderator who looks at it now."""
        return self.claimed_by if self.claimed_until and self.claimed_until > now else None


class Decision(models.Model):
    """What one moderator decided, or a rule (no moderator), with the reports and the text as they were: what undo,
    the weights of reporters and the log go by."""

    class Action(models.TextChoices):
        ACCEPTED = "accepted", _("Taken down")
        REJECTED = "rejected", _("Kept, and its reports deleted")
        HIDDEN = "hidden", _("Hidden for now")
        SHOWN = "shown", _("Shown again")
        WARNED = "warned", _("Its author was warned")
        RESTORED = "restored", _("Restored after it was taken down")
        REPORT_DELETED = "report_deleted", _("A report was deleted")
        APPEAL_KEPT = "appeal_kept", _("Appeal: it stays down")
        APPEAL_OVERTURNED = "appeal_overturned", _("Appeal: restored")

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="decisions")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+", db_index=False)
    action = models.CharField(_("action"), max_length=24, choices=Action.choices)
    moderator = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, related_name="decisions", verbose_name=_("moderator")
    )
    note = models.TextField(_("note"), blank=True)  # for moderators
    reason = models.TextField(blank=True)  # for the author and the reporters
    reports = models.JSONField(default=list)
    reports_count = models.PositiveIntegerField(_("reports count"), default=0)
    content = models.JSONField(default=dict)  # as it was
    before = models.JSONField(default=dict)  # what undo puts back
    created_at = models.DateTimeField(_("created at"))
    undo_until = models.DateTimeField()
    undone_at = models.DateTimeField(_("undone at"), null=True)
    undone_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["-created_at", "action", "reports_count"],
                condition=Q(undone_at=None),
                name="commerce_decision_standing",
            ),
            models.Index(fields=["author", "action"], name="commerce_decision_of_author"),
            models.Index(fields=["action", "-id"], name="commerce_decision_by_action"),
            models.Index(fields=["-id"], condition=Q(undone_at__isnull=False), name="commerce_decision_undone"),
        ]

    def __str__(self) -> str:
        return f"{self.action}: {self.case_id}"

    def can_be_undone(self, now: datetime) -> bool:
        return self.undone_at is None and now < self.undo_until


class NoticeQuerySet(models.QuerySet["Notice"]):
    def for_user(self, user: User, now: datetime) -> Self:
        """What this user has been told: nothing before its decision can no longer be undone."""
        return self.filter(user=user, due_at__lte=now)

    def to_send(self, now: datetime) -> Self:
        """The letters that are due, and that nobody else is sending."""
        return self.filter(mail_due_at__lte=now)


class Notice(models.Model):
    """What one user is told about one decision. It is the outbox of its own letter."""

    class Kind(models.TextChoices):
        CONTENT_REMOVED = "content_removed"
        CONTENT_RESTORED = "content_restored"
        WARNING = "warning"
        REPORT_ACCEPTED = "report_accepted"
        REPORT_REJECTED = "report_rejected"
        APPEAL_KEPT = "appeal_kept"

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="notices", db_index=False)
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="notices")
    kind = models.CharField(max_length=24, choices=Kind.choices)
    title = models.CharField(max_length=200)
    text = models.TextField()
    due_at = models.DateTimeField()
    appeal_until = models.DateTimeField(null=True)
    # When its letter is next to be sent: first when it is due; later while somebody sends it, or after a failure.
    # Null: it was sent, or given up.
    mail_due_at = models.DateTimeField(null=True)
    mail_attempts = models.PositiveSmallIntegerField(default=0)
    mailed_at = models.DateTimeField(null=True)

    objects = NoticeQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "decision", "kind"], name="commerce_notice_told_once"),
        ]
        indexes = [
            models.Index(fields=["user", "-due_at", "-id"], name="commerce_notice_of_user"),
            models.Index(fields=["mail_due_at"], condition=Q(mail_due_at__isnull=False), name="commerce_notice_mail"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.user_id}"


class AppealQuerySet(models.QuerySet["Appeal"]):
    def for_user(self, user: User) -> Self:
        """Those that this user made."""
        return self.filter(author=user)


class Appeal(models.Model):
    """An author's word against a decision, once."""

    class Status(models.TextChoices):
        OPEN = "open"
        KEPT = "kept", "The content stays down"
        OVERTURNED = "overturned", "The content is back"

    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="appeals")
    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="appeal")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="appeals")
    message = models.TextField()
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.OPEN)
    result = models.ForeignKey(Decision, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    created_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)

    objects = AppealQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(status="open", result__isnull=True, decided_at__isnull=True)
                | Q(status__in=["kept", "overturned"], result__isnull=False, decided_at__isnull=False),
                name="commerce_appeal_decided_or_open",
            )
        ]

    def __str__(self) -> str:
        return f"Appeal {self.pk}: {self.status}"
