"""What people do with drafts: edit, accept and discard them, one or many. Of two who decide about one, the first
counts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction

from commerce.catalog.models import Product
from commerce.catalog.services import change_product
from commerce.descriptions.models import DescriptionDraft, version_of
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record

State = DescriptionDraft.State
CHANGED = "The description was changed after this draft was asked for."


class DescriptionChanged(ApiError):
    """The product has another description than when the draft was asked for: whoever does not look at it would lose
    it."""

    def __init__(self) -> None:
        super().__init__(409, CHANGED, code="description_changed")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one of many drafts; `refusal`: why nothing did."""

    draft: DescriptionDraft
    refusal: str = ""


@transaction.atomic
def edit_draft(*, draft_id: int, actor: User, text: str, now: datetime) -> DescriptionDraft:
    """Another text, which is not empty. Raises ApiError 404 for a draft of a product that the actor may not change,
    409 for one that is decided about."""
    draft = _open_draft(draft_id, actor)
    _set_text(draft, text, now)
    draft.save(update_fields=["text", "edited_at"])
    return draft


@transaction.atomic
def accept_draft(
    *, draft_id: int, actor: User, now: datetime, text: str = "", unless_changed: bool = False
) -> DescriptionDraft:
    """Makes the draft, or `text` in its place, the product's description, and writes down which one it replaces. Raises
    as `edit_draft` does, and DescriptionChanged where `unless_changed` asks for it."""
    draft = _open_draft(draft_id, actor)
    product = Product.objects.select_for_update(of=("self",)).get(pk=draft.product_id)
    replaced = product.description
    if unless_changed and version_of(replaced) != draft.based_on:
        raise DescriptionChanged
    if text:
        _set_text(draft, text, now)
    change_product(actor=actor, product_id=product.pk, values={"description": draft.text}, now=now)
    _decide(draft, State.ACCEPTED, actor, now)
    details = {"draft_id": draft.pk, "model": draft.model, "replaced": replaced, "description": draft.text}
    record(
        action="descriptions.accepted",
        actor=actor,
        target_type="Product",
        target_id=product.pk,
        details=details,
        now=now,
    )
    return draft


@transaction.atomic
def discard_draft(*, draft_id: int, actor: User, now: datetime) -> DescriptionDraft:
    """Nobody uses it; it stays to be read. Raises as `edit_draft` does."""
    draft = _open_draft(draft_id, actor)
    _decide(draft, State.DISCARDED, actor, now)
    return draft


def accept_drafts(*, draft_ids: Iterable[int], actor: User, now: datetime) -> list[Outcome]:
    """Each for itself, the newest first, and none over a description that is newer than it: so of several for one
    product the newest is used. One that is refused stays as it is, and stops none of the others."""
    return _decide_many(partial(accept_draft, unless_changed=True), draft_ids, actor, now)


def discard_drafts(*, draft_ids: Iterable[int], actor: User, now: datetime) -> list[Outcome]:
    """Each for itself."""
    return _decide_many(discard_draft, draft_ids, actor, now)


def _decide_many(
    decide: Callable[..., DescriptionDraft], draft_ids: Iterable[int], actor: User, now: datetime
) -> list[Outcome]:
    chosen = DescriptionDraft.objects.filter(pk__in=list(draft_ids)).select_related("product")
    outcomes = []
    for draft in list(chosen.order_by("-created_at", "-pk")):
        try:
            decide(draft_id=draft.pk, actor=actor, now=now)
            outcomes.append(Outcome(draft=draft))
        except ApiError as error:
            outcomes.append(Outcome(draft=draft, refusal=error.problem.message))
    return outcomes


def _open_draft(draft_id: int, actor: User) -> DescriptionDraft:
    """The draft, locked."""
    drafts = DescriptionDraft.objects.select_for_update(of=("self",)).managed_by(actor)
    draft = drafts.filter(pk=draft_id).first()
    if draft is None:
        raise ApiError(404, "Your shops have no draft with this id.")
    if not draft.is_open:
        raise ApiError(409, f"This draft is {draft.state} already. Ask for a new one.")
    return draft


def _set_text(draft: DescriptionDraft, text: str, now: datetime) -> None:
    if text != draft.text:
        draft.text, draft.edited_at = text, now


def _decide(draft: DescriptionDraft, state: str, actor: User, now: datetime) -> None:
    draft.state, draft.decided_by, draft.decided_at = state, actor, now
    draft.save(update_fields=["text", "edited_at", "state", "decided_by", "decided_at"])
