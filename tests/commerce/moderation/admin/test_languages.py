"""Every page of the admin in every language that it offers: numbers for machines, and no label without translation."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import unfold
from django.conf import settings
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext
from django.utils.translation.trans_real import DjangoTranslation

from commerce.moderation.models import DecisionTemplate, SecondLook
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.api.admin.labels import iterate_labels
from tests.commerce.moderation.factories import DAY, case_of, decide, report, reporter

LANGUAGES = [code for code, _name in settings.LANGUAGES]
TRANSLATED = [code for code in LANGUAGES if code != "en"]
CASES = "/admin/commerce_moderation/case/"
NUMBER = r"-?\d+(?:\.\d+)?"
GEOMETRY = re.compile(r'\s(x|y|x1|x2|y1|y2|cx|cy|r|dy|width|height|points|viewBox|transform)="([^"]*)"')
NUMBERS = re.compile(rf"(?:[a-z]+\()?{NUMBER}(?:[ ,]{NUMBER})*\)?|\d+px|100%")
JSON_SCRIPT = re.compile(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', re.DOTALL)
TEMPLATE_TEXT = re.compile(r"""{%-?\s*trans(?:late)?\s+(["'])(.+?)\1""")

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


@pytest.fixture
def moderator(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def rows(admin: User, written: Review, asked: Question) -> None:
    """Create a decided and a waiting case with some weight, so that charts have broken numbers."""
    report(written, reporter("ann"), at=timezone.now() - DAY)
    decision = decide("accepted", written, admin, at=timezone.now())
    SecondLook.objects.create(decision=decision, created_at=decision.created_at)
    report(asked, reporter("bea"), at=timezone.now() - 3 * DAY)
    DecisionTemplate.objects.create(name="Advertising", text="{product} is no place for it.")


def pages() -> list[str]:
    """Return the paths of every list and form of the admin, and of the pages of moderation."""
    paths = [
        "/admin/",
        CASES,
        f"{CASES}statistics/",
        f"{CASES}transparency/",
        f"{CASES}second-look/",
        f"{CASES}?order=due&severity=1&search=lamp+12",
        "/admin/dashboard/",
        "/admin/dashboard/texts/",
        "/admin/first-steps/",
        "/admin/health/",
    ]
    for model, model_admin in admin.site._registry.items():
        names = [url.name or "" for url in model_admin.urls]
        prefix = f"{model._meta.app_label}_{model._meta.model_name}"
        paths += [reverse(f"admin:{prefix}_{page}") for page in ("changelist", "add") if f"{prefix}_{page}" in names]
    return paths


def check_numbers(page: str) -> int:
    """Return the number of SVG attributes of a page, which are all numbers for machines; its JSON can be parsed."""
    for script in JSON_SCRIPT.findall(page):
        json.loads(script)
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    attributes = GEOMETRY.findall(drawings)
    assert [found for found in attributes if not NUMBERS.fullmatch(found[1])] == []
    return len(attributes)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_has_numbers_that_machines_read(
    moderator: Client, rows: None, written: Review, asked: Question, language: str
):
    attributes = 0
    asked_for = [*pages(), f"{CASES}{case_of(written).pk}/change/", f"{CASES}{case_of(asked).pk}/change/"]
    subjects = {"author": written.user_id, "reporter": written.user_id, "shop": written.shop_id}
    subjects["product"] = written.product_id
    asked_for += [f"{CASES}history/{subject}/{pk}/" for subject, pk in subjects.items()]
    for path in asked_for:
        answer = moderator.get(path, headers={"Accept-Language": language})
        if answer.status_code == 403:  # rows that only services make
            continue
        assert answer.status_code == 200, path
        shown = answer.content.decode()
        assert f'<html lang="{language}"' in shown, path
        attributes += check_numbers(shown)
    assert attributes > 50

    claimed = moderator.post(f"{CASES}{case_of(asked).pk}/claim/", headers={"Accept-Language": language})
    assert claimed.json()["is_waiting"]


def catalog(language: str) -> Any:
    return DjangoTranslation(language)._catalog


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_label_of_a_page_is_translated(language: str):
    with translation.override("en"):
        labels = [str(label) for label in iterate_labels(admin.site)]
    with translation.override(language):
        shown = [str(label) for label in iterate_labels(admin.site)]
        expected = [gettext(label) for label in labels]

    assert len(set(labels)) > 300
    assert sorted(label for label in set(labels) if label not in catalog(language)) == []
    assert shown == expected


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_of_the_theme_is_translated(language: str):
    theme = Path(unfold.__file__).parent / "templates"
    texts = {text for path in theme.rglob("*.html") for _quote, text in TEMPLATE_TEXT.findall(path.read_text())}

    assert len(texts) > 50
    assert sorted(text for text in texts if text not in catalog(language)) == []
