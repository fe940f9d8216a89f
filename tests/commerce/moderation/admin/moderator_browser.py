"""A moderator's browser, and a shop in a process of its own."""

from dataclasses import dataclass

from playwright.sync_api import Browser, Page

from tests.commerce.live_server import ServedShop, manage

PATIENCE_MS = 60_000
QUEUE = "/admin/commerce_moderation/case/"
TOLD = """
from commerce.moderation.models import Case, Decision
made = Decision.objects.filter(moderator__isnull=False, undone_at=None)
print(Case.objects.waiting().count(), made.count(), made.values("case").distinct().count())
"""


@dataclass
class ModeratorBrowser:
    """The browser of one moderator; several may use one shop."""

    shop: ServedShop
    browser: Browser

    def open_queue(self, **options: object) -> Page:
        """Return a signed-in page with the queue. Signing in needs scripts and uses a context that has them."""
        user = next(user for user in self.shop.users if user["role"] == "SUPER_ADMIN")
        page = self.browser.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{self.shop.url}/admin/login/?next={QUEUE}")
        page.fill("[name=username]", user["email"])
        page.fill("[name=password]", user["password"])
        page.click("[type=submit]")
        page.wait_for_url(f"**{QUEUE}*")
        signed_in = page.context.storage_state()
        page.context.close()
        page = self.browser.new_context(storage_state=signed_in, **options).new_page()  # type: ignore[arg-type]
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{self.shop.url}{QUEUE}")
        return page

    def figures(self) -> list[int]:
        """Return the number of waiting cases, of decisions by moderators, and of their cases."""
        return [int(number) for number in manage(self.shop.environment, "shell", "-v", "0", "-c", TOLD).split()]
