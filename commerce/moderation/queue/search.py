"""Search of the queue. Each kind of term reads an index and at most MAX_MATCHES rows."""

from collections.abc import Iterable, Iterator

from django.db.models import Q, QuerySet

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Case
from commerce.moderation.reportable_content import CONTENT_MODELS
from shared.accounts.models import User
from shared.api.admin_base import starts_with
from shared.api.query_params import parse_integer

MAX_MATCHES = 1_000
MAX_PRODUCTS = 100


def search(cases: "QuerySet[Case]", term: str) -> "QuerySet[Case]":
    """Return the cases that match a term, all for an empty one.

    A term is the id of a review or question, the e-mail of an author or reporter, or the start of a product's name.
    """
    term = term.strip().replace("\x00", "")
    if not term:
        return cases
    if (number := parse_integer(term)) is not None:
        return cases.filter(model_id=number)
    unordered = cases.order_by()
    ids = _ids_by_person(unordered, term) if "@" in term else _ids_by_product(unordered, term)
    # By ids alone: given the conditions of the queue too, planners walk its whole index until a page is full.
    return Case.objects.filter(pk__in=set(ids)).order_by(*cases.query.order_by)


def _ids_by_person(cases: "QuerySet[Case]", email: str) -> Iterator[int]:
    user = User.objects.filter(email=email.lower()).first()
    if user is None:
        return
    yield from cases.filter(author=user).values_list("pk", flat=True)[:MAX_MATCHES]
    reports = AbuseReport.objects.for_user(user).order_by()
    yield from _ids_by_content(cases, reports.values_list("model_type", "model_id")[:MAX_MATCHES])


def _ids_by_product(cases: "QuerySet[Case]", term: str) -> Iterator[int]:
    has_name = Q()
    for spelling in {term, term.lower(), term.capitalize(), term.title()}:
        has_name |= starts_with("name", spelling)
    products = list(Product.objects.filter(has_name).order_by().values_list("pk", flat=True)[:MAX_PRODUCTS])
    contents: list[tuple[str, int]] = []
    for kind, model in CONTENT_MODELS.items():
        reported = model._default_manager.filter(product_id__in=products, abusive_reports_count__gt=0)
        contents += [(kind, pk) for pk in reported.order_by().values_list("pk", flat=True)[:MAX_MATCHES]]
    yield from _ids_by_content(cases, contents)


def _ids_by_content(cases: "QuerySet[Case]", contents: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Yield the ids of the cases about these contents, from one query."""
    keys = set(contents)
    candidates = cases.filter(model_id__in={model_id for _kind, model_id in keys})
    for pk, *content in candidates.values_list("pk", "model_type", "model_id"):
        if tuple(content) in keys:
            yield pk
