"""A moderator's browser, and a shop in a process of its own."""

import contextlib
import sqlite3
from dataclasses import dataclass

from playwright.sync_api import Browser, Page

from tests.chromium import sign_in
from tests.commerce.live_server import ServedShop

PATIENCE_MS = 60_000
QUEUE = "/admin/commerce_moderation/case/"
FIGURES = """
SELECT (SELECT count(*) FROM commerce_moderation_case WHERE is_waiting), count(*), count(DISTINCT case_id)
FROM commerce_moderation_decision WHERE moderator_id IS NOT NULL AND undone_at IS NULL
"""


@dataclass
class ModeratorBrowser:
    """The browser of one moderator; several may use one shop, whose database is a file."""

    shop: ServedShop
    browser: Browser

    def open_queue(self, **options: object) -> Page:
        """Return a signed-in page with the queue."""
        user = next(user for user in self.shop.users if user["role"] == "SUPER_ADMIN")
        context = self.browser.new_context(**options)  # type: ignore[arg-type]
        sign_in(context, self.shop.url + QUEUE, email=user["email"], password=user["password"])
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{self.shop.url}{QUEUE}")
        return page

    def figures(self) -> list[int]:
        """Return the number of waiting cases, of decisions by moderators, and of their cases."""
        path = self.shop.environment["DATABASE_URL"].removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as database:
            return list(database.execute(FIGURES).fetchone())
