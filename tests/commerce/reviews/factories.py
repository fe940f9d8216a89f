"""Factories of reviews and questions."""

from typing import Any
from uuid import uuid4

from django.utils import timezone

from commerce.attachments.models import Attachment
from commerce.catalog.models import Product
from commerce.reviews.models import Question, Review
from commerce.reviews.services import ask_question, write_review
from shared.accounts.models import User


def review(user: User, product: Product, rating: int = 4, **fields: Any) -> Review:
    return write_review(user=user, product_id=product.pk, rating=rating, now=timezone.now(), **fields)


def ask(user: User, product: Product, question: str = "Does it float?") -> Question:
    return ask_question(user=user, product_id=product.pk, question=question, now=timezone.now())


def make_photo(owner: User, **fields: Any) -> Attachment:
    """Create the row of an uploaded image without its file."""
    kind = {"content_type": "image/webp", "size": 1, "width": 8, "height": 8} | fields
    return Attachment.objects.create(owner=owner, key=uuid4().hex, name="photo.webp", **kind)
