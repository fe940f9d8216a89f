"""Allowed filters, search fields, orders and relations of the lists of reviews and questions."""

from commerce.reviews.models import Question, Review
from shared.api.lists.filters import IntegerFilter, ListFilterSet

RELATIONS = {"user": "user", "product": "product__image", "shop": "shop__logo"}


class ReviewFilters(ListFilterSet):
    search_fields = {name: name for name in ("product_id", "shop_id", "rating", "comment")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "rating")}
    relations = RELATIONS
    product_id = IntegerFilter(help_text="Id of a product.")
    shop_id = IntegerFilter(help_text="Id of a shop.")
    rating = IntegerFilter(help_text="Rating from 1 to 5.")

    class Meta:
        model = Review
        fields: list[str] = []


class QuestionFilters(ListFilterSet):
    search_fields = {name: name for name in ("product_id", "shop_id", "question", "answer")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "answered_at")}
    relations = RELATIONS
    product_id = IntegerFilter(help_text="Id of a product.")
    shop_id = IntegerFilter(help_text="Id of a shop.")

    class Meta:
        model = Question
        fields: list[str] = []
