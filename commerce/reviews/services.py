"""Every write to reviews and questions. A product's rating changes in the same transaction as its reviews."""

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.catalog.services import change_rating
from commerce.moderation.cases import withdraw_case
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.api.errors import ApiError, ValidationFailed
from shared.audit.services import record


@transaction.atomic
def write_review(
    *,
    user: User,
    product_id: int,
    rating: int,
    comment: str = "",
    order_id: int | None = None,
    photo_ids: Sequence[int] = (),
    now: datetime,
) -> Review:
    """A review of a product that is for sale: one for each of the user's orders of it, which may be named by the parent
    or by the shop's part, and one without. Raises ApiError 404 for an order that is not the user's, 409 for a second
    one, ValidationFailed for a product that is not for sale or not of that order, and for photos of others."""
    product = _product(product_id)
    order = None if order_id is None else _order_with(product, order_id, user)
    photos = _own_photos(photo_ids, user)
    try:
        with transaction.atomic():
            review = Review.objects.create(
                user=user,
                product=product,
                shop_id=product.shop_id,
                order=order,
                rating=rating,
                comment=comment,
                created_at=now,
                updated_at=now,
            )
    except IntegrityError:
        raise ApiError(409, "You have reviewed this product already: delete that review first.") from None
    review.photos.set(photos)
    change_rating(product_id=product.pk, stars=rating, count=1)
    return review


@transaction.atomic
def delete_review(*, review_id: int, actor: User, now: datetime) -> None:
    """Takes a review, and its stars, off the product. Raises ApiError 404 for one that is not `actor`'s."""
    review = Review.objects.for_author(actor).select_for_update().filter(pk=review_id).first()
    if review is None:
        raise ApiError(404, "You have no review with this id.")
    _delete(review, actor=actor, now=now)


def ask_question(*, user: User, product_id: int, question: str, now: datetime) -> Question:
    """A question to the shop about a product that is for sale. Raises ValidationFailed for any other product."""
    product = _product(product_id)
    return Question.objects.create(
        user=user, product=product, shop_id=product.shop_id, question=question, created_at=now, updated_at=now
    )


def answer_question(*, question_id: int, answer: str, actor: User, now: datetime) -> Question:
    """The shop's answer, in the place of an earlier one. Raises ApiError 404 for a question to another shop."""
    asked = Question.objects.managed_by(actor).filter(pk=question_id)
    if not asked.update(answer=answer, answered_at=now, updated_at=now):
        raise ApiError(404, "Your shops have no question with this id.")
    return asked.get()


@transaction.atomic
def delete_question(*, question_id: int, actor: User, now: datetime) -> None:
    """Takes a question off every list. Raises ApiError 404 for one that is not `actor`'s."""
    question = Question.objects.for_author(actor).select_for_update().filter(pk=question_id).first()
    if question is None:
        raise ApiError(404, "You have no question with this id.")
    _delete(question, actor=actor, now=now)


def _delete(content: Review | Question, *, actor: User, now: datetime) -> None:
    """What its author takes back is their own affair; what somebody else deletes is logged, with the text."""
    kind = type(content).__name__
    set_visibility(content, deleted_at=now, hidden_at=content.hidden_at, now=now)
    withdraw_case(model_type=kind, model_id=content.pk, now=now)
    if content.user_id != actor.pk:
        text = {
            name: getattr(content, name)
            for name in ("comment", "rating", "question", "answer")
            if hasattr(content, name)
        }
        record(action="reviews.deleted", actor=actor, target_type=kind, target_id=content.pk, details=text, now=now)


@transaction.atomic
def set_visibility(
    content: Review | Question, *, deleted_at: datetime | None, hidden_at: datetime | None, now: datetime
) -> None:
    """Hides, deletes or brings back what the caller has locked; a review's stars count while it is visible. `now`
    becomes its `updated_at`. Raises ApiError 409 where the author has written another review in its place."""
    was_visible = content.is_visible
    content.deleted_at, content.hidden_at, content.updated_at = deleted_at, hidden_at, now
    try:
        with transaction.atomic():
            content.save(update_fields=["deleted_at", "hidden_at", "updated_at"])
    except IntegrityError:
        raise ApiError(409, "Its author has written another review of this product since.") from None
    if isinstance(content, Review) and content.is_visible != was_visible:
        sign = 1 if content.is_visible else -1
        change_rating(product_id=content.product_id, stars=sign * content.rating, count=sign)


def _product(product_id: int) -> Product:
    product = Product.objects.public().filter(pk=product_id).first()
    if product is None:
        raise ValidationFailed({"product_id": ["There is no product for sale with this id."]})
    return product


def _order_with(product: Product, order_id: int, user: User) -> Order:
    """The parent of the tree in which this user bought the product."""
    order = Order.objects.filter(customer=user, pk=order_id).select_related("parent").first()
    if order is None:
        raise ApiError(404, "You have no order with this id.")
    parts = [order] if order.parent else order.children.all()
    # The order's few lines are looked through here: SQLite would begin with all that was ever sold of the product.
    if product.pk not in OrderLine.objects.filter(order__in=parts).values_list("product_id", flat=True):
        raise ValidationFailed({"order_id": ["You did not buy this product in this order."]})
    return order.parent or order


def _own_photos(photo_ids: Sequence[int], user: User) -> list[Attachment]:
    """Locked, so that none is deleted before the review has them."""
    wanted = set(photo_ids)
    own = Attachment.objects.filter(owner=user, width__isnull=False, pk__in=wanted)
    photos = list(own.order_by("pk").select_for_update(no_key=True)) if wanted else []
    if len(photos) < len(wanted):
        raise ValidationFailed({"photos": ["Name images that you uploaded yourself."]})
    return photos
