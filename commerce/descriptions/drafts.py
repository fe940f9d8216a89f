"""What people do with drafts: edit, accept and discard them. Of two who decide about one, the first counts."""

from datetime import datetime

from django.db import transaction

from commerce.catalog.models import Product
from commerce.catalog.services import change_product
from commerce.descriptions.models import DescriptionDraft
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.audit.services import record

State = DescriptionDraft.State


@transaction.atomic
def edit_draft(*, draft_id: int, actor: User, text: str, now: datetime) -> DescriptionDraft:
    """Another text, which is not empty. Raises ApiError 404 for a draft of a product that the actor may not change,
    409 for one that is decided about."""
    draft = _open_draft(draft_id, actor)
    _set_text(draft, text, now)
    draft.save(update_fields=["text", "edited_at"])
    return draft


@transaction.atomic
def accept_draft(*, draft_id: int, actor: User, now: datetime, text: str = "") -> DescriptionDraft:
    """Makes the draft, or `text` in its place, the product's description, and writes down which one it replaces. Raises
    as `edit_draft` does."""
    draft = _open_draft(draft_id, actor)
    product = Product.objects.select_for_update(of=("self",)).get(pk=draft.product_id)
    replaced = product.description
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
