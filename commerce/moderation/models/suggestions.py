"""Vectors of cases, what was learned from the decisions about them, and the suggestions that moderators saw."""

from django.db import models

from commerce.moderation.models.cases import Case
from commerce.moderation.models.decisions import Decision
from commerce.moderation.models.reasons import ReportReason


class CaseVector(models.Model):
    """The meaning of a case according to a model: of its content, of its reports, and some features of the content.

    A part without a text, or whose text the model server refuses, is zero. The fingerprint is that of the texts: those
    of the decision for a decided case. Waiting cases with nearly the same content have one `group`.
    """

    case = models.ForeignKey(Case, on_delete=models.CASCADE, related_name="vectors", db_index=False, editable=False)
    model = models.CharField(max_length=255, editable=False)
    dimensions = models.PositiveIntegerField(editable=False)  # of the model
    vector = models.BinaryField(editable=False)
    fingerprint = models.CharField(max_length=32, editable=False)
    reason = models.ForeignKey(
        ReportReason, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False, editable=False
    )  # fmt: skip
    group = models.BigIntegerField(editable=False)
    source_updated_at = models.DateTimeField(editable=False)
    embedded_at = models.DateTimeField(editable=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["case", "model"], name="commerce_case_vector_one_a_model")]
        indexes = [models.Index(fields=["group"], name="commerce_case_vector_group")]

    def __str__(self) -> str:
        return f"Vector of case {self.case_id} by {self.model}"


class SuggestionModel(models.Model):
    """Weights learned from past decisions on the vectors of one embedding model.

    `rules` has the confidence, precision and coverage on held-out decisions, by kind of content and verdict; a verdict
    without a rule is not suggested. An attempt is saved before it begins, so that one that fails is not repeated soon.
    """

    model = models.CharField(max_length=255, unique=True, editable=False)
    dimensions = models.PositiveIntegerField(default=0, editable=False)
    weights = models.BinaryField(default=bytes, editable=False)
    rules = models.JSONField(default=dict, editable=False)
    decisions_count = models.PositiveIntegerField(default=0, editable=False)
    attempted_at = models.DateTimeField(null=True, editable=False)
    trained_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Suggestions by {self.model}, from {self.decisions_count} decisions"


class DecisionSuggestion(models.Model):
    """The verdict that was suggested to the moderator who made a decision."""

    decision = models.OneToOneField(
        Decision, on_delete=models.CASCADE, primary_key=True, related_name="suggestion", editable=False
    )  # fmt: skip
    action = models.CharField(max_length=24, choices=Decision.Action.choices, editable=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.action} was suggested for decision {self.decision_id}"
