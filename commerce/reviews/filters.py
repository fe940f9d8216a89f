"""What the lists of reviews and questions may be asked."""

from commerce.reviews.models import Question, Review
from shared.api.listing import ListFilters, WholeNumberFilter

RELATIONS = {"user": "user", "product": "product__image", "shop": "shop__logo"}


class ReviewFilters(ListFilters):
    search_fields = {name: name for name in ("product_id", "shop_id", "rating", "comment")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "rating")}
    relations = RELATIONS
    product_id = WholeNumberFilter()
    shop_id = WholeNumberFilter()
    rating = WholeNumberFilter()

    class Meta:
        model = Review
        fields: list[str] = []


class QuestionFilters(ListFilters):
    search_fields = {name: name for name in ("product_id", "shop_id", "question", "answer")}
    order_fields = {name: name for name in ("id", "created_at", "updated_at", "answered_at")}
    relations = RELATIONS
    product_id = WholeNumberFilter()
    shop_id = WholeNumberFilter()

    class Meta:
        model = Question
        fields: list[str] = []
