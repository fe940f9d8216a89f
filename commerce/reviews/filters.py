"""Allowed filters, search fields, orders and relations of the lists of reviews and questions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field

from commerce.catalog.models import Product
from commerce.reviews.models import Question, Review
from commerce.reviews.moderation_hooks import hooks
from shared.accounts.permissions import current_user
from shared.api.lists.filters import IntegerFilter, ListFilterSet
from shared.api.lists.relations import INCLUDED, LoadedRelation, Relation
from shared.api.lists.search import searched_names


def load_reports(rows: Sequence[Any], user: Any) -> None:
    hooks.load_reports(contents=rows, user=user)


RELATIONS: Mapping[str, Relation] = {
    "user": "user",
    "product": "product__image",
    "shop": "shop__logo",
    "abusive_reports": LoadedRelation(load_reports),
    "abusive_reports.user": INCLUDED,
}


@extend_schema_field({"type": "string", "maxLength": 255, "example": "null"})
class AnswerFilter(filters.CharFilter):  # type: ignore[misc]
    """Filter `answer=null`: unanswered questions. Any other text is looked for in the answers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=255, **kwargs)

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        if not value:
            return qs
        return qs.filter(Q(answer="") if value.lower() == "null" else Q(answer__icontains=value))


class ContentFilters(ListFilterSet):
    """Filters that find words of a product only where the user may see it."""

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if any(not name or "." in name for name in searched_names(self.data.get("search", ""))):
            queryset = queryset.filter(product__in=Product.objects.visible_to(current_user(self.request)))
        return super().filter_queryset(queryset)


class ReviewFilters(ContentFilters):
    search_fields = {
        **{name: name for name in ("id", "product_id", "shop_id", "user_id", "rating", "comment")},
        "product.name": "product__name",
        "product.slug": "product__slug",
        "shop.slug": "shop__slug",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "rating")}
    relations = RELATIONS
    product_id = IntegerFilter(help_text="Id of a product.")
    shop_id = IntegerFilter(help_text="Id of a shop.")
    rating = IntegerFilter(help_text="Rating from 1 to 5.")

    class Meta:
        model = Review
        fields: list[str] = []


class QuestionFilters(ContentFilters):
    search_fields = {
        **{name: name for name in ("id", "product_id", "shop_id", "user_id", "question", "answer")},
        "product.name": "product__name",
        "product.slug": "product__slug",
        "shop.slug": "shop__slug",
        "type.slug": "product__type__slug",
        "categories.slug": "product__categories__slug",
    }
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "answered_at")}
    relations = RELATIONS
    product_id = IntegerFilter(help_text="Id of a product.")
    shop_id = IntegerFilter(help_text="Id of a shop.")
    answer = AnswerFilter(help_text="`null` for unanswered questions, or words of the answer.")

    class Meta:
        model = Question
        fields: list[str] = []
