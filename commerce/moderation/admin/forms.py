"""Forms of the moderators' pages: the filters of the queue, and decisions with their texts."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.moderation.decisions import DecisionMessage
from commerce.moderation.models import Case, ContentKind, Decision, DecisionTemplate, ReportReason
from commerce.moderation.models.reasons import unknown_placeholders
from commerce.moderation.queue.bulk import MAX_BULK_CASES
from commerce.moderation.queue.listing import QUEUE_ORDERS, QueueFilters
from commerce.shops.models import Shop
from shared.api.query_params import MAX_INTEGER, parse_integer

Action = Decision.Action
DAY = timedelta(days=1)
MAX_MESSAGE_LENGTH = 2_000
ORDER_NAMES: Mapping[str, str | Promise] = {
    "newest": _("Newest first"),
    "oldest": _("Oldest first"),
    "most_reported": _("Most reported first"),
    "most_trusted": _("Most trusted reports first"),
    "due": _("Due first"),
    "most_severe": _("Most severe first"),
}
AGE_FILTERS: Mapping[str, tuple[str | Promise, Mapping[str, timedelta]]] = {
    "hour": (_("Under an hour"), {"newer_than": DAY / 24}),
    "day": (_("Under a day"), {"newer_than": DAY}),
    "over_day": (_("Over a day"), {"older_than": DAY}),
    "over_week": (_("Over a week"), {"older_than": 7 * DAY}),
}
ONLY_FILTERS: Mapping[str, tuple[str | Promise, Mapping[str, Any]]] = {
    "automatic": (_("Hidden automatically"), {"hiding": Case.Hiding.AUTOMATIC}),
    "held": (_("Held by a rule"), {"hiding": Case.Hiding.HELD}),
    "moderator": (_("Hidden by a moderator"), {"hiding": Case.Hiding.MODERATOR}),
    "brigaded": (_("Flagged as brigading"), {"is_brigaded": True}),
    "appealed": (_("Appealed"), {"state": Case.State.APPEALED}),
    "escalated": (_("Escalated"), {"is_escalated": True}),
    "overdue": (_("Overdue"), {"is_overdue": True}),
}
BULK_ACTIONS = {
    Action.ACCEPTED: _("Accept: take down"),
    Action.REJECTED: _("Reject: keep"),
    Action.HIDDEN: _("Hide for now"),
    Action.WARNED: _("Warn the authors"),
}
# What the page suggested, for the statistics.
SUGGESTED_ACTIONS = [("", ""), (Action.ACCEPTED, ""), (Action.REJECTED, "")]
KINDS = [(ContentKind.REVIEW, _("Reviews")), (ContentKind.QUESTION, _("Questions"))]
NO_FILTER = ("", _("All"))


class QueueForm(forms.Form):
    """Filters and order of the queue. A field with an invalid value filters nothing and shows an error."""

    order = forms.ChoiceField(label=_("Order"), choices=list(ORDER_NAMES.items()), required=False)
    kind = forms.ChoiceField(label=_("Kind"), choices=[NO_FILTER, *KINDS], required=False)
    age = forms.ChoiceField(
        label=_("Age"), choices=[NO_FILTER, *((name, age[0]) for name, age in AGE_FILTERS.items())], required=False
    )
    only = forms.ChoiceField(
        label=_("Only"), choices=[NO_FILTER, *((name, only[0]) for name, only in ONLY_FILTERS.items())], required=False
    )
    reason = forms.ModelChoiceField(
        ReportReason.objects.all(), label=_("Reason"), to_field_name="code", empty_label=_("All"), required=False
    )
    severity = forms.TypedChoiceField(
        label=_("Severity"), coerce=int, choices=[NO_FILTER, *ReportReason.Severity.choices], required=False
    )
    shop = forms.CharField(label=_("Shop"), max_length=255, required=False)
    language = forms.CharField(label=_("Language"), max_length=16, required=False)
    search = forms.CharField(label=_("Search"), max_length=254, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["shop"].widget.attrs |= {"list": "shops", "autocomplete": "off", "placeholder": _("Name or slug")}
        self.fields["language"].widget.attrs |= {"placeholder": "en", "size": 6}
        self.fields["search"].widget = forms.TextInput(
            attrs={"type": "search", "placeholder": _("Words, name, e-mail or id")}
        )

    def clean_shop(self) -> int | None:
        name = self.cleaned_data["shop"].strip()
        if not name:
            return None
        number = parse_integer(name)
        shops = Shop.objects.filter(slug=name) | Shop.objects.filter(name=name)
        shop_id = (Shop.objects.filter(pk=number) if number is not None else shops).values_list("pk", flat=True).first()
        if shop_id is None:
            raise forms.ValidationError(_("No shop has this name, slug or id."))
        return shop_id

    def order_name(self) -> str:
        return self.cleaned_data.get("order") or next(iter(QUEUE_ORDERS))

    def filters(self) -> QueueFilters:
        values = self.cleaned_data
        age: Mapping[str, Any] = AGE_FILTERS[values["age"]][1] if values.get("age") else {}
        only: Mapping[str, Any] = ONLY_FILTERS[values["only"]][1] if values.get("only") else {}
        return QueueFilters(
            model_type=values.get("kind") or None,
            reason_id=values["reason"].pk if values.get("reason") else None,
            severity=values.get("severity") or None,
            shop_id=values.get("shop"),
            language=values.get("language", "").strip() or None,
            **age,
            **only,
        )


class DecisionMessageForm(forms.Form):
    """The texts of a decision."""

    reason = forms.CharField(max_length=MAX_MESSAGE_LENGTH, required=False)
    note = forms.CharField(max_length=MAX_MESSAGE_LENGTH, required=False)

    template = forms.ModelChoiceField(DecisionTemplate.objects.filter(is_active=True), required=False)

    def clean(self) -> dict[str, Any]:
        """Take the text of the template if no reason was written, and refuse a placeholder that nothing fills."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if data.get("template") and not data.get("reason"):
            data["reason"] = data["template"].text
        if unknown := unknown_placeholders(data.get("reason", "")):
            message = _("The reason has a placeholder that nothing fills: %(unknown)s. Write what it stands for.")
            error = forms.ValidationError(message, code="placeholder", params={"unknown": ", ".join(unknown)})
            self.add_error("reason", error)
        return data

    def message(self) -> DecisionMessage:
        return DecisionMessage(note=self.cleaned_data["note"], reason=self.cleaned_data["reason"], is_template=True)


class DecisionForm(DecisionMessageForm):
    """A decision about one case."""

    action = forms.ChoiceField(
        choices=[*BULK_ACTIONS.items(), (Action.SHOWN, ""), (Action.RESTORED, ""), (Action.ESCALATED, "")]
    )
    suggested = forms.ChoiceField(choices=SUGGESTED_ACTIONS, required=False)


class BulkDecisionForm(DecisionMessageForm):
    """A decision about the selected cases: with `like`, the id of a case, about those that say nearly the same."""

    action = forms.ChoiceField(choices=list(BULK_ACTIONS.items()))
    like = forms.IntegerField(required=False, min_value=1, max_value=MAX_INTEGER)
    suggested = forms.ChoiceField(choices=SUGGESTED_ACTIONS, required=False)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        chosen = [(one, one) for one in data.getlist("case") if parse_integer(one) is not None]
        errors = dict.fromkeys(("required", "invalid_choice"), _("Choose at least one item."))
        self.fields["case"] = forms.TypedMultipleChoiceField(coerce=int, choices=chosen, error_messages=errors)

    def clean_case(self) -> list[int]:
        chosen = list(dict.fromkeys(self.cleaned_data["case"]))
        if len(chosen) > MAX_BULK_CASES:
            raise forms.ValidationError(_("Decide about at most %(max)d items at once.") % {"max": MAX_BULK_CASES})
        return chosen
