"""Views of second looks: one blind case at a time, and the moderator's verdict about it."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.attachments.models import Attachment
from commerce.attachments.serializers import attachment_record
from commerce.moderation.admin.presenters import STARS
from commerce.moderation.labels import KINDS, translate_error
from commerce.moderation.models import SecondLook
from commerce.moderation.queue.second_looks import BlindCase, decide_second_look, next_blind_case
from shared.accounts.permissions import signed_in_user
from shared.api.errors import ApiError

Verdict = SecondLook.Verdict


class VerdictForm(forms.Form):
    verdict = forms.ChoiceField(choices=[(Verdict.ACCEPTED, ""), (Verdict.REJECTED, "")])


def show_second_look(request: HttpRequest, *, error: str = "", status: int = 200) -> HttpResponse:
    """Show the next case to look at again, and why the last verdict was refused."""
    case = next_blind_case(signed_in_user(request))
    context = admin.site.each_context(request) | {"title": _("Second look"), "error": error, "case": case}
    if case is not None:
        context |= _describe(case)
    return render(request, "moderation/second_look.html", context, status=status)


def decide_blindly(request: HttpRequest, look_id: int) -> HttpResponse:
    """Save the verdict and go on to the next case; a refused one is answered by the page with the reason."""
    form = VerdictForm(request.POST)
    if not form.is_valid():
        return show_second_look(request, error=_("Choose one of the buttons."), status=422)
    verdict = form.cleaned_data["verdict"]
    try:
        decide_second_look(look_id=look_id, verdict=verdict, moderator=signed_in_user(request), now=timezone.now())
    except ApiError as error:
        return show_second_look(request, error=translate_error(error), status=error.problem.status)
    messages.success(request, _("Your second look is saved. The item stays as it is."))
    return HttpResponseRedirect(reverse("admin:commerce_moderation_second_look"))


def _describe(case: BlindCase) -> dict[str, Any]:
    content, rating = case.content, case.content.get("rating") or 0
    return {
        "kind": KINDS[case.look.decision.case.model_type],
        "text": case.look.decision.text,
        "answer": content.get("answer", ""),
        "rating": rating,
        "stars": "★" * rating + "☆" * (STARS - rating),
        "photos": list(
            map(attachment_record, Attachment.objects.filter(pk__in=content.get("photos", [])).order_by("pk"))
        ),
    }
