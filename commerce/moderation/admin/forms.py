"""What the moderators' pages are asked: which items to show, what to decide and in which words."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.moderation.decisions import Words
from commerce.moderation.models import Case, Decision, Kind
from commerce.moderation.queue.bulk import MOST_AT_ONCE
from commerce.moderation.queue.listing import ORDERS, QueueFilters
from commerce.shops.models import Shop
from shared.api.query_params import parse_integer

Action = Decision.Action
DAY = timedelta(days=1)
MOST_SAID = 2_000
ORDER_NAMES: Mapping[str, str | Promise] = {
    "newest": _("Newest first"),
    "oldest": _("Oldest first"),
    "most_reported": _("Most reported first"),
    "most_trusted": _("Most trusted reports first"),
}
AGES: Mapping[str, tuple[str | Promise, Mapping[str, timedelta]]] = {
    "hour": (_("Under an hour"), {"newer_than": DAY / 24}),
    "day": (_("Under a day"), {"newer_than": DAY}),
    "over_day": (_("Over a day"), {"older_than": DAY}),
    "over_week": (_("Over a week"), {"older_than": 7 * DAY}),
}
ONLY: Mapping[str, tuple[str | Promise, Mapping[str, Any]]] = {
    "automatic": (_("Hidden automatically"), {"hiding": Case.Hiding.AUTOMATIC}),
    "moderator": (_("Hidden by a moderator"), {"hiding": Case.Hiding.MODERATOR}),
    "brigaded": (_("Flagged as brigading"), {"is_brigaded": True}),
    "appealed": (_("Appealed"), {"state": Case.State.APPEALED}),
}
MANY = {
    Action.ACCEPTED: _("Accept: take down"),
    Action.REJECTED: _("Reject: keep"),
    Action.HIDDEN: _("Hide for now"),
    Action.WARNED: _("Warn the authors"),
}
KINDS = [(Kind.REVIEW, _("Reviews")), (Kind.QUESTION, _("Questions"))]
ANY = ("", _("All"))


class QueueForm(forms.Form):
    """Which part of the queue, and in which order. A field that makes no sense filters nothing, and says so."""

    order = forms.ChoiceField(label=_("Order"), choices=list(ORDER_NAMES.items()), required=False)
    kind = forms.ChoiceField(label=_("Kind"), choices=[ANY, *KINDS], required=False)
    age = forms.ChoiceField(
        label=_("Age"), choices=[ANY, *((name, age[0]) for name, age in AGES.items())], required=False
    )
    only = forms.ChoiceField(
        label=_("Only"), choices=[ANY, *((name, only[0]) for name, only in ONLY.items())], required=False
    )
    shop = forms.CharField(label=_("Shop"), max_length=255, required=False)
    language = forms.CharField(label=_("Language"), max_length=16, required=False)
    search = forms.CharField(label=_("Search"), max_length=254, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["shop"].widget.attrs |= {"list": "shops", "autocomplete": "off", "placeholder": _("Name or slug")}
        self.fields["language"].widget.attrs |= {"placeholder": "en", "size": 6}
        self.fields["search"].widget = forms.TextInput(
            attrs={"type": "search", "placeholder": _("E-mail, product or id")}
        )

    def clean_shop(self) -> int | None:
        name = self.cleaned_data["shop"].strip()
        if not name:
            return None
        number = parse_integer(name)
        shops = Shop.objects.filter(slug=name) | Shop.objects.filter(name=name)
        found = (Shop.objects.filter(pk=number) if number is not None else shops).values_list("pk", flat=True).first()
        if found is None:
            raise forms.ValidationError(_("No shop has this name, slug or id."))
        return found

    def order_name(self) -> str:
        return self.cleaned_data.get("order") or next(iter(ORDERS))

    def filters(self) -> QueueFilters:
        given = self.cleaned_data
        age: Mapping[str, Any] = AGES[given["age"]][1] if given.get("age") else {}
        only: Mapping[str, Any] = ONLY[given["only"]][1] if given.get("only") else {}
        return QueueFilters(
            kind=given.get("kind") or None,
            shop_id=given.get("shop"),
            language=given.get("language", "").strip() or None,
            **age,
            **only,
        )


class WordsForm(forms.Form):
    note = forms.CharField(max_length=MOST_SAID, required=False)
    reason = forms.CharField(max_length=MOST_SAID, required=False)

    def words(self) -> Words:
        return Words(note=self.cleaned_data["note"], reason=self.cleaned_data["reason"])


class DecisionForm(WordsForm):
    """One item."""

    action = forms.ChoiceField(choices=[*MANY.items(), (Action.SHOWN, ""), (Action.RESTORED, "")])


class ManyForm(WordsForm):
    """Many items."""

    action = forms.ChoiceField(choices=list(MANY.items()))

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        chosen = [(one, one) for one in data.getlist("case") if parse_integer(one) is not None]
        nothing = dict.fromkeys(("required", "invalid_choice"), _("Choose at least one item."))
        self.fields["case"] = forms.TypedMultipleChoiceField(coerce=int, choices=chosen, error_messages=nothing)

    def clean_case(self) -> list[int]:
        chosen = list(dict.fromkeys(self.cleaned_data["case"]))
        if len(chosen) > MOST_AT_ONCE:
            raise forms.ValidationError(_("Decide about at most %(most)d items at once.") % {"most": MOST_AT_ONCE})
        return chosen
