"""Waiting cases of questions and reviews, each with one report."""

from django.utils import timezone

from commerce.catalog.models import Product
from commerce.moderation.models import Case
from commerce.moderation.reportable_content import Reportable
from shared.accounts.models import User
from tests.commerce.moderation.factories import case_of, report, reporter
from tests.commerce.reviews.factories import ask


def waiting(author: User, product: Product, text: str, name: str = "ann") -> Case:
    return reported(ask(author, product, text), name)


def reported(content: Reportable, name: str = "ann") -> Case:
    report(content, reporter(name), at=timezone.now(), message="Look at this.")
    return case_of(content)
