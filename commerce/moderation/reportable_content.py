"""The closed list of what can be reported: each kind, and the model that it is kept in."""

from collections.abc import Mapping

from commerce.moderation.models import Case, Kind
from commerce.reviews.models import Question, Review
from shared.api.errors import ApiError

Reportable = Review | Question
TARGETS: Mapping[str, type[Review] | type[Question]] = {Kind.REVIEW: Review, Kind.QUESTION: Question}
# The shop's clients were written against a back end that says where the class is.
LONG_SPELLING = "Marvel\\Database\\Models\\"


class ContentNotFound(ApiError):
    """There is no such content, or none of that kind can be reported."""

    def __init__(self) -> None:
        super().__init__(404, "There is no such content.")


def kind_of(model_type: str) -> Kind:
    """The kind that either spelling names. Raises ContentNotFound for anything else."""
    short = model_type.removeprefix(LONG_SPELLING)
    if short not in TARGETS:
        raise ContentNotFound
    return Kind(short)


def read_content(case: Case) -> Reportable:
    """What the case is about, deleted or not."""
    content: Reportable = TARGETS[case.model_type]._default_manager.get(pk=case.model_id)
    return content


def lock_content(kind: Kind, model_id: int, *, deleted: bool = False) -> Reportable:
    """One content, locked before everything else that a decision or a report touches: so of many at once one goes
    first, and the others see what it did. Raises ContentNotFound for what is not there; a deleted one is there when
    `deleted` asks for it."""
    rows = TARGETS[kind]._default_manager.select_for_update(of=("self",)).select_related("product", "shop")
    found = rows.filter(pk=model_id) if deleted else rows.filter(pk=model_id, deleted_at=None)
    content = found.first()
    if content is None:
        raise ContentNotFound
    return content
