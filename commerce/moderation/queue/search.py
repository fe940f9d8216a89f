"""Search of the queue. Each kind of term reads an index and at most MAX_MATCHES rows."""

from collections.abc import Iterable, Iterator, Sequence

from django.db.models import Q, QuerySet

from commerce.catalog.models import Product
from commerce.moderation.models import AbuseReport, Case
from commerce.moderation.reportable_content import CONTENT_MODELS
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.lists.text_search import query_words, rows_with_words
from shared.api.query_params import parse_integer

MAX_MATCHES = 1_000
MAX_PRODUCTS = 100
MAX_PEOPLE = 100
MAX_SHOPS = 100


def search(cases: "QuerySet[Case]", term: str) -> "QuerySet[Case]":
    """Return those of the cases that match a term, all for an empty one.

    A term is the id of a review or question, alone or after its kind, the e-mail address of an author or reporter, or
    words that are together in the content, in a report, or in the name of an author, reporter, shop or product. A
    number that is no such id, and an address that is nobody's, are words.
    """
    term = term.strip().replace("\x00", "")
    if not term:
        return cases
    unordered = cases.order_by()
    if (number := parse_integer(term.removeprefix("#"))) is not None and unordered.filter(model_id=number).exists():
        return cases.filter(model_id=number)
    ids = (list(_ids_by_person(unordered, term)) if "@" in term else []) or _ids_by_words(unordered, term)
    # By ids alone: given the conditions of the queue too, planners walk its whole index until a page is full.
    return Case.objects.filter(pk__in=set(ids)).order_by(*cases.query.order_by)


def _ids_by_person(cases: "QuerySet[Case]", email: str) -> Iterator[int]:
    users = list(User.objects.filter(email=email.lower()).values_list("pk", flat=True))
    yield from _ids_by_author(cases, users)
    yield from _ids_by_content(cases, _reported_by(users))


def _ids_by_words(cases: "QuerySet[Case]", term: str) -> Iterator[int]:
    number = parse_integer(term.split()[-1].removeprefix("#"))
    if number is not None:
        yield from cases.filter(model_id=number).values_list("pk", flat=True)
    words = query_words(term)
    if not words:
        return
    reports = rows_with_words(AbuseReport, "message", term, limit=MAX_MATCHES)
    contents = list(AbuseReport.objects.filter(pk__in=reports).order_by().values_list("model_type", "model_id"))
    products = rows_with_words(Product, "name", term, limit=MAX_PRODUCTS)
    for kind, model in CONTENT_MODELS.items():
        ids = rows_with_words(model, model.text_field, term, limit=MAX_MATCHES)
        reported = model._default_manager.filter(
            Q(abusive_reports_count__gt=0) | Q(hidden_at__isnull=False), product_id__in=products
        )
        ids += reported.order_by().values_list("pk", flat=True)[:MAX_MATCHES]
        contents += [(kind, pk) for pk in ids]
    people = rows_with_words(User, "name", term, limit=MAX_PEOPLE)
    yield from _ids_by_author(cases, people)
    yield from _ids_by_content(cases, [*contents, *_reported_by(people)])
    shops = rows_with_words(Shop, "name", term, limit=MAX_SHOPS)
    yield from cases.filter(shop_id__in=shops).values_list("pk", flat=True)[:MAX_MATCHES]


def _ids_by_author(cases: "QuerySet[Case]", user_ids: Sequence[int]) -> Iterator[int]:
    yield from cases.filter(author_id__in=user_ids).values_list("pk", flat=True)[:MAX_MATCHES]


def _reported_by(user_ids: Sequence[int]) -> Iterable[tuple[str, int]]:
    reports = AbuseReport.objects.filter(user_id__in=user_ids).order_by()
    return reports.values_list("model_type", "model_id")[:MAX_MATCHES]


def _ids_by_content(cases: "QuerySet[Case]", contents: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Yield the ids of the cases about these contents, from one query."""
    keys = set(contents)
    if not keys:
        return
    candidates = cases.filter(model_id__in={model_id for _kind, model_id in keys})
    for pk, *content in candidates.values_list("pk", "model_type", "model_id"):
        if tuple(content) in keys:
            yield pk
