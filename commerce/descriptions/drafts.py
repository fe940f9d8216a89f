"""Services of drafts: create, edit, accept and discard. The first decision about a draft wins."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from django.db import transaction

from commerce.catalog.models import Product
from commerce.catalog.services import change_product
from commerce.descriptions.models import DescriptionDraft, description_digest
from commerce.descriptions.text.prompts import DescriptionRequest
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record_audit_entry

State = DescriptionDraft.State
MAX_DRAFTS_PER_PRODUCT = 200
DESCRIPTION_CHANGED = "The product's description was changed after this draft was requested."


class DescriptionChanged(ApiError):
    """The product's description was changed after the draft was requested, so accepting would overwrite it unseen."""

    def __init__(self) -> None:
        super().__init__(409, DESCRIPTION_CHANGED, code="description_changed")


@dataclass(frozen=True, kw_only=True)
class DraftDecision:
    """The outcome of a decision about one of many drafts. `error` says why the draft is unchanged."""

    draft: DescriptionDraft
    error: str = ""


@transaction.atomic
def create_draft(
    *,
    product: Product,
    author_id: int,
    request: DescriptionRequest,
    text: str,
    based_on: str,
    model: str,
    now: datetime,
    is_fallback: bool = False,
) -> DescriptionDraft:
    """Create an open draft of this text with the request that it was written for.

    A product has its newest MAX_DRAFTS_PER_PRODUCT open drafts; older ones are deleted. Drafts of jobs do not count:
    a job's numbers include them. Concurrent calls may leave a few more, as none locks the product.
    """
    counted = DescriptionDraft.objects.open().filter(product=product, item=None).order_by("-pk")
    older = list(counted.values_list("pk", flat=True)[MAX_DRAFTS_PER_PRODUCT - 1 :])
    DescriptionDraft.objects.filter(pk__in=older).delete()
    return DescriptionDraft.objects.create(
        product=product,
        author_id=author_id,
        text=text,
        written=text,
        is_fallback=is_fallback,
        based_on=based_on,
        model=model,
        tone=request.tone,
        language=request.language,
        keywords=list(request.keywords),
        max_words=request.max_words,
        created_at=now,
    )


@transaction.atomic
def edit_draft(*, draft_id: int, actor: User, text: str, now: datetime) -> DescriptionDraft:
    """Replace the draft's text with a non-empty one.

    Raises ApiError 404 for a draft of a product that the actor may not change, and 409 for one that is not open.
    """
    draft = _lock_open_draft(draft_id, actor)
    _set_text(draft, text, now)
    draft.save(update_fields=["text", "edited_at"])
    return draft


@transaction.atomic
def accept_draft(
    *, draft_id: int, actor: User, now: datetime, text: str = "", unless_changed: bool = False
) -> DescriptionDraft:
    """Make the draft, or `text` in its place, the product's description, and record the replaced one in the audit log.

    Raises as `edit_draft` does, and DescriptionChanged where `unless_changed` is set.
    """
    draft = _lock_open_draft(draft_id, actor)
    product = Product.objects.select_for_update(of=("self",)).get(pk=draft.product_id)
    replaced = product.description
    if unless_changed and description_digest(replaced) != draft.based_on:
        raise DescriptionChanged
    if text:
        _set_text(draft, text, now)
    change_product(actor=actor, product_id=product.pk, values={"description": draft.text}, now=now)
    _decide(draft, State.ACCEPTED, actor, now)
    record_audit_entry(
        action="descriptions.accepted",
        actor=actor,
        target_type="Product",
        target_id=product.pk,
        details={"draft_id": draft.pk, "model": draft.model, "replaced": replaced, "description": draft.text},
        now=now,
    )
    return draft


@transaction.atomic
def discard_draft(*, draft_id: int, actor: User, now: datetime) -> DescriptionDraft:
    """Discard the draft, which stays in the history. Raise as `edit_draft` does."""
    draft = _lock_open_draft(draft_id, actor)
    _decide(draft, State.DISCARDED, actor, now)
    return draft


def accept_drafts(*, draft_ids: Iterable[int], actor: User, now: datetime) -> list[DraftDecision]:
    """Accept each draft on its own, the newest first, unless its product's description was changed since.

    Of several drafts for one product the newest is therefore accepted. An error leaves its draft unchanged and does
    not stop the others.
    """
    return _decide_many(partial(accept_draft, unless_changed=True), draft_ids, actor, now)


def discard_drafts(*, draft_ids: Iterable[int], actor: User, now: datetime) -> list[DraftDecision]:
    """Discard each draft on its own."""
    return _decide_many(discard_draft, draft_ids, actor, now)


def _decide_many(
    decide: Callable[..., DescriptionDraft], draft_ids: Iterable[int], actor: User, now: datetime
) -> list[DraftDecision]:
    drafts = DescriptionDraft.objects.filter(pk__in=list(draft_ids)).select_related("product")
    decisions = []
    for draft in list(drafts.order_by("-created_at", "-pk")):
        try:
            decide(draft_id=draft.pk, actor=actor, now=now)
            decisions.append(DraftDecision(draft=draft))
        except ApiError as error:
            decisions.append(DraftDecision(draft=draft, error=error.problem.message))
    return decisions


def _lock_open_draft(draft_id: int, actor: User) -> DescriptionDraft:
    drafts = DescriptionDraft.objects.select_for_update(of=("self",)).managed_by(actor)
    draft = drafts.filter(pk=draft_id).first()
    if draft is None:
        raise ApiError(404, "Your shops have no draft with this id.")
    if not draft.is_open:
        raise ApiError(409, f"This draft is already {draft.state}. Request a new one.")
    return draft


def _set_text(draft: DescriptionDraft, text: str, now: datetime) -> None:
    if text != draft.text:
        draft.text, draft.edited_at = text, now


def _decide(draft: DescriptionDraft, state: str, actor: User, now: datetime) -> None:
    draft.state, draft.decided_by, draft.decided_at = state, actor, now
    draft.save(update_fields=["text", "edited_at", "state", "decided_by", "decided_at"])
