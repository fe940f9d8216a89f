"""Accessibility of the admin's pages, checked by axe in a browser: dark, wide, English; light, narrow, German.

The narrow pages are checked at a middle width too, and those of moderation do not scroll sideways.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium
from tests.commerce.live_server import manage, served_shop
from tests.commerce.moderation.admin.moderator_browser import PATIENCE_MS, QUEUE, ModeratorBrowser
from tests.page_checks import OVERFLOW, WITHOUT_CONTRAST, check_page, find_violations

FILL = """
from commerce.catalog.models import Product
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.moderation.models import Case, Decision, HoldingRule, SecondLook
from commerce.reviews.services import ask_question
from django.utils import timezone
from shared.accounts.models import User
from tests.commerce.descriptions.drafts import make_draft
from tests.commerce.moderation.sample_queue import appeal_some, decide_some, fill_queue, make_person
admin = User.objects.filter(role="SUPER_ADMIN").earliest("pk")
fill_queue(20)
colleague = make_person("Colleague", role="MODERATOR")
HoldingRule.objects.create(name="Telephone", kind="words", entries="telephone")
lamp = Product.objects.public().earliest("pk")
ask_question(user=colleague, product_id=lamp.pk, question="T E L E P H O N E?", now=timezone.now())
decide_some(6, admin)
decision = Decision.objects.filter(action="accepted").earliest("pk")
Decision.objects.filter(pk=decision.pk).update(moderator=colleague)
SecondLook.objects.create(decision=decision, created_at=decision.created_at)
appeal_some(1)
product = Product.objects.earliest("pk")
draft = make_draft(product, admin)
job = create_job(author=admin, product_ids=[product.pk], options=DescriptionOptions(), now=timezone.now())
case = Case.objects.filter(state="appealed").first()
reporter = User.objects.get(email="reporter.1@people.example")
print(product.pk, draft.pk, job.pk, case.pk, case.author_id, reporter.pk, case.shop_id)
"""
LOOKS: dict[str, dict[str, Any]] = {
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "light": {"viewport": {"width": 320, "height": 844}, "color_scheme": "light", "locale": "de-DE"},
}
MIDDLE_WIDTH = 768
# The rest of the form belongs to the admin theme, whose autocomplete fields fail the rule about names.
PARTS = {"the product form": "#description-writer"}
JOBS = "/admin/commerce_descriptions/descriptionjob/"
DASHBOARD = "/admin/dashboard/"
PAGES = {
    "the landing page": "/",
    "the queue": QUEUE,
    "the queue, filtered": f"{QUEUE}?order=most_trusted&kind=Review&shop=nowhere",
    "an empty queue": f"{QUEUE}?language=xx",
    "an appealed item": f"{QUEUE}{{case}}/change/",
    "statistics": f"{QUEUE}statistics/",
    "the transparency report": f"{QUEUE}transparency/?since=2026-01-01&until=2026-12-31",
    "a transparency report of no period": f"{QUEUE}transparency/?since=2026-02-01&until=2026-01-01",
    "the history of an author": f"{QUEUE}history/author/{{author}}/",
    "the history of a reporter": f"{QUEUE}history/reporter/{{reporter}}/",
    "the history of a shop": f"{QUEUE}history/shop/{{shop}}/",
    "held items": f"{QUEUE}?only=held",
    "holding rules": "/admin/commerce_moderation/holdingrule/",
    "a second look": f"{QUEUE}second-look/",
    "decisions": "/admin/commerce_moderation/decision/",
    "the audit log": "/admin/audit/auditentry/",
    "the product form": "/admin/commerce_catalog/product/{product}/change/",
    "drafts": "/admin/commerce_descriptions/descriptiondraft/",
    "a draft": "/admin/commerce_descriptions/descriptiondraft/{draft}/change/",
    "jobs": JOBS,
    "a new job": f"{JOBS}new/?product={{product}}",
    "a job": f"{JOBS}{{job}}/change/",
    "product texts": f"{DASHBOARD}texts/",
    "a product's text": f"{DASHBOARD}texts/{{product}}/",
    "the first steps": "/admin/first-steps/",
    "the dashboard": f"{DASHBOARD}?from=2024-01-01",
    "a day of the dashboard without orders": f"{DASHBOARD}?from=2001-01-01&to=2001-01-01",
    "the first page of the admin": "/admin/",
    "health": "/admin/health/",
    "users": "/admin/accounts/user/",
    "products": "/admin/commerce_catalog/product/",
    "orders": "/admin/commerce_orders/order/",
    "the second factor": "/admin/accounts/user/second-factor/",
}

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_database]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def desk(browser: Browser) -> Iterator[ModeratorBrowser]:
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        yield ModeratorBrowser(shop, browser)


@pytest.fixture(scope="module")
def ids(desk: ModeratorBrowser) -> dict[str, str]:
    printed = manage(desk.shop.environment, "shell", "-v", "0", "-c", FILL).split()
    return dict(zip(("product", "draft", "job", "case", "author", "reporter", "shop"), printed, strict=True))


@pytest.fixture(scope="module", params=LOOKS)
def page(desk: ModeratorBrowser, ids: dict[str, str], request: pytest.FixtureRequest) -> Page:
    return desk.open_queue(**LOOKS[request.param])


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation_on_a_page(page: Page, desk: ModeratorBrowser, ids: dict[str, str], name: str):
    page.goto(desk.shop.url + PAGES[name].format(**ids))
    page.wait_for_load_state("networkidle")

    check(page, PARTS.get(name))
    size = page.viewport_size
    if size and size["width"] < MIDDLE_WIDTH:  # resized, rather than loaded again
        page.set_viewport_size({"width": MIDDLE_WIDTH, "height": size["height"]})
        check(page, PARTS.get(name), **WITHOUT_CONTRAST)
        page.set_viewport_size(size)


def check(page: Page, part: str | None, **options: Any) -> None:
    assert find_violations(page, part, **options) == []
    if "/commerce_moderation/" in page.url:
        assert page.evaluate(OVERFLOW) == 0


@pytest.mark.parametrize("path", ["/admin/login/", "/admin/dashboard/"])
def test_axe_finds_no_violation_on_the_sign_in_page(browser: Browser, desk: ModeratorBrowser, path: str):
    check_page(browser, desk.shop.url + path)


def test_axe_finds_no_violation_in_bulk_decisions(page: Page, desk: ModeratorBrowser):
    page.goto(desk.shop.url + QUEUE)
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible(timeout=PATIENCE_MS)
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    page.locator("#rows input[type=checkbox]").first.check()
    page.locator("#many .mod-primary").click()
    page.wait_for_load_state("networkidle")
    assert find_violations(page) == []
