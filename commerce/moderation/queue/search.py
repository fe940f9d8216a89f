"""Finding items of the queue by what a moderator types. Every way reads an index, and takes so many at most."""

from collections.abc import Iterable, Iterator

from django.db.models import Q, QuerySet

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Case
from commerce.moderation.reportable_content import TARGETS
from shared.accounts.models import User
from shared.api.admin_base import starts_with
from shared.api.query_params import parse_integer

MOST_FOUND = 1_000
MOST_PRODUCTS = 100


def search(cases: "QuerySet[Case]", term: str) -> "QuerySet[Case]":
    """Those that a term means: the id of a review or question, the whole e-mail of an author or reporter, or the
    beginning of a product's name. All of them for nothing."""
    term = term.strip().replace("\x00", "")
    if not term:
        return cases
    if (number := parse_integer(term)) is not None:
        return cases.filter(model_id=number)
    unordered = cases.order_by()
    found = _of_person(unordered, term) if "@" in term else _of_products(unordered, term)
    # By ids alone: asked for what waits in its order, a planner would rather walk the whole queue until a page is full.
    return Case.objects.filter(pk__in=set(found)).order_by(*cases.query.order_by)


def _of_person(cases: "QuerySet[Case]", email: str) -> Iterator[int]:
    user = User.objects.filter(email=email.lower()).first()
    if user is None:
        return
    yield from cases.filter(author=user).values_list("pk", flat=True)[:MOST_FOUND]
    reports = AbuseReport.objects.for_user(user).order_by()
    yield from _about(cases, reports.values_list("model_type", "model_id")[:MOST_FOUND])


def _of_products(cases: "QuerySet[Case]", term: str) -> Iterator[int]:
    spelled = Q()
    for spelling in {term, term.lower(), term.capitalize(), term.title()}:
        spelled |= starts_with("name", spelling)
    products = list(Product.objects.filter(spelled).order_by().values_list("pk", flat=True)[:MOST_PRODUCTS])
    found: list[tuple[str, int]] = []
    for kind, model in TARGETS.items():
        reported = model._default_manager.filter(product_id__in=products, abusive_reports_count__gt=0)
        found += [(kind, pk) for pk in reported.order_by().values_list("pk", flat=True)[:MOST_FOUND]]
    yield from _about(cases, found)


def _about(cases: "QuerySet[Case]", contents: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Those about these contents, in one query."""
    wanted = set(contents)
    found = cases.filter(model_id__in={model_id for _kind, model_id in wanted})
    for pk, *content in found.values_list("pk", "model_type", "model_id"):
        if tuple(content) in wanted:
            yield pk
