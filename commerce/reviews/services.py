"""Writes to reviews and questions. The rating of a product changes in the same transaction as its reviews."""

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.catalog.services import change_rating
from commerce.orders.models import Order, OrderLine
from commerce.reviews.models import Question, Review
from commerce.reviews.moderation_hooks import hooks
from commerce.webhooks.events import announce_review
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError, NotFound, ValidationFailed

MAX_REVIEWS_PER_USER = 5_000
MAX_QUESTIONS_PER_USER = 5_000


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
    """Create a review of a product that is for sale. One that a rule holds is hidden until a moderator decides.

    A user has one review for each order with the product, which may be a parent or a child, and one without an order.
    Raises ApiError 403 for a sanctioned user, NotFound for another customer's order, ApiError 409 for a second review,
    and ValidationFailed for a product that is not for sale or not in the order, for photos that the user did not
    upload and after MAX_REVIEWS_PER_USER.
    """
    lock_active_user(user)  # what concurrent requests of a user write is counted one after the other
    hooks.check_may_write(user=user, now=now)
    _require_fewer(Review, user, MAX_REVIEWS_PER_USER)
    product = _get_product_for_sale(product_id)
    order = None if order_id is None else _get_parent_order(product, order_id, user)
    photos = _lock_own_photos(photo_ids, user)
    rule = hooks.find_hold(user=user, shop_id=product.shop_id, text=comment, now=now)
    try:
        with transaction.atomic():
            review = Review.objects.create(
                user=user,
                product=product,
                shop_id=product.shop_id,
                order=order,
                rating=rating,
                comment=comment,
                hidden_at=now if rule else None,
                created_at=now,
                updated_at=now,
            )
    except IntegrityError:
        raise ApiError(409, "You have reviewed this product already: delete that review first.") from None
    review.photos.set(photos)
    if rule:
        hooks.hold(content=review, rule=rule, now=now)
        return review
    change_rating(product_id=product.pk, stars=rating, count=1)
    announce_review(review, now=now)
    return review


@transaction.atomic
def delete_review(*, review_id: int, actor: User, now: datetime) -> None:
    """Delete a review and take its rating off the product. Raises NotFound unless the actor may delete it."""
    review = Review.objects.for_author(actor).select_for_update().filter(pk=review_id).first()
    if review is None:
        raise NotFound
    _delete(review, actor=actor, now=now)


@transaction.atomic
def ask_question(*, user: User, product_id: int, question: str, now: datetime) -> Question:
    """Create a question about a product that is for sale. One that a rule holds is hidden until a moderator decides.

    Raises ValidationFailed for any other product and after MAX_QUESTIONS_PER_USER, and ApiError 403 for a sanctioned
    user.
    """
    lock_active_user(user)
    hooks.check_may_write(user=user, now=now)
    _require_fewer(Question, user, MAX_QUESTIONS_PER_USER)
    product = _get_product_for_sale(product_id)
    rule = hooks.find_hold(user=user, shop_id=product.shop_id, text=question, now=now)
    asked = Question.objects.create(
        user=user,
        product=product,
        shop_id=product.shop_id,
        question=question,
        hidden_at=now if rule else None,
        created_at=now,
        updated_at=now,
    )
    if rule:
        hooks.hold(content=asked, rule=rule, now=now)
    return asked


def answer_question(*, question_id: int, answer: str, actor: User, now: datetime) -> Question:
    """Set the shop's answer, which replaces an earlier one. Raises NotFound for a question to another shop."""
    questions = Question.objects.managed_by(actor).filter(pk=question_id)
    if not questions.update(answer=answer, answered_at=now, updated_at=now):
        raise NotFound
    return questions.get()


@transaction.atomic
def delete_question(*, question_id: int, actor: User, now: datetime) -> None:
    """Delete a question with its answer. Raises NotFound unless the actor may delete it."""
    question = Question.objects.for_author(actor).select_for_update().filter(pk=question_id).first()
    if question is None:
        raise NotFound
    _delete(question, actor=actor, now=now)


@transaction.atomic
def set_visibility(
    content: Review | Question, *, deleted_at: datetime | None, hidden_at: datetime | None, now: datetime
) -> None:
    """Hide, delete or restore content that the caller has locked. Only visible reviews count in the rating.

    Raises ApiError 409 if a restored review would be the author's second one of the product.
    """
    was_visible = content.is_visible
    content.deleted_at, content.hidden_at, content.updated_at = deleted_at, hidden_at, now
    try:
        with transaction.atomic():
            content.save(update_fields=["deleted_at", "hidden_at", "updated_at"])
    except IntegrityError:
        raise ApiError(409, "The author has written another review of this product since.") from None
    if isinstance(content, Review) and content.is_visible != was_visible:
        sign = 1 if content.is_visible else -1
        change_rating(product_id=content.product_id, stars=sign * content.rating, count=sign)


def _delete(content: Review | Question, *, actor: User, now: datetime) -> None:
    """Withdraw the author's own content with its moderation case, or take others' content down as a moderator does."""
    model_type = type(content).__name__
    if content.user_id != actor.pk:
        hooks.take_down(model_type=model_type, model_id=content.pk, moderator=actor, may_overrule=True, now=now)
        return
    set_visibility(content, deleted_at=now, hidden_at=content.hidden_at, now=now)
    hooks.withdraw_case(model_type=model_type, model_id=content.pk, now=now)


def _require_fewer(model: type[Review] | type[Question], user: User, max_count: int) -> None:
    """Raise ValidationFailed if the user has written this many.

    Withdrawn ones count: their rows stay for moderation.
    """
    if model.objects.filter(user=user).count() >= max_count:
        name = model._meta.verbose_name_plural
        raise ValidationFailed({"product_id": [f"You have written {max_count} {name}, the maximum: 0 are left."]})


def _get_product_for_sale(product_id: int) -> Product:
    product = Product.objects.public().filter(pk=product_id).first()
    if product is None:
        raise ValidationFailed({"product_id": ["There is no product for sale with this id."]})
    return product


def _get_parent_order(product: Product, order_id: int, user: User) -> Order:
    """Return the parent of an order in which this user bought the product."""
    order = Order.objects.filter(customer=user, pk=order_id).select_related("parent").first()
    if order is None:
        raise NotFound
    children = [order] if order.parent else order.children.all()
    # Filtering by product in the query would make SQLite start from all lines that were ever sold of it.
    if product.pk not in OrderLine.objects.filter(order__in=children).values_list("product_id", flat=True):
        raise ValidationFailed({"order_id": ["You did not buy this product in this order."]})
    return order.parent or order


def _lock_own_photos(photo_ids: Sequence[int], user: User) -> list[Attachment]:
    """Return the user's photos, locked so that none is deleted before the review refers to it."""
    ids = set(photo_ids)
    own = Attachment.objects.filter(owner=user, width__isnull=False, pk__in=ids)
    photos = list(own.order_by("pk").select_for_update(no_key=True)) if ids else []
    if len(photos) < len(ids):
        raise ValidationFailed({"photos": ["Send the ids of images that you uploaded."]})
    return photos
