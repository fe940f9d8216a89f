"""Key presses and page loads of moderators' decisions, with a suggestion and without, in a real browser.

Without a suggestion the same decisions are made by the keys that the queue has always had. Both send the author the
text of a template; a decision without any text is one key either way. The baseline is the way without suggestions.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.benchmarks._table import Comparison, arguments, publish
from tests.chromium import running_chromium
from tests.commerce.live_server import manage, served_shop
from tests.commerce.moderation.admin.moderator_browser import ModeratorBrowser
from tests.commerce.search.embedding_server import EmbeddingServer

ALIKE = 10
PATIENCE_SECONDS = 20
FILL = f"from tests.benchmarks.suggestions._shop import fill; fill({ALIKE + 2})"


class Counter:
    """Presses keys on a page, and counts them and the documents that are loaded."""

    def __init__(self, page: Page) -> None:
        self.page, self.keys, self.loads = page, 0, 0
        page.on("domcontentloaded", self._count_load)

    def _count_load(self, _page: Page) -> None:
        self.loads += 1

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.keys += 1


def one_without(page: Page, counter: Counter) -> None:
    """Choose a template by the keyboard, and accept."""
    case = shown(page)
    counter.press("m", "Shift+Tab", "ArrowDown")
    expect(page.locator("#reason")).to_have_value("Advertising is not allowed.")
    counter.press("Escape", "a")
    expect(page.locator(f"#item [data-case='{case}']")).to_have_count(0)


def one_with(page: Page, counter: Counter) -> None:
    """Take the suggestion over, and decide."""
    case = shown(page)
    counter.press("t")
    expect(page.locator("#reason")).to_have_value("Advertising is not allowed.")
    counter.press("Enter")
    expect(page.locator(f"#item [data-case='{case}']")).to_have_count(0)


def ten_without(page: Page, counter: Counter) -> None:
    """Accept one after the other, without a text."""
    for _ in range(ALIKE):
        case = shown(page)
        counter.press("a")
        expect(page.locator(f"#item [data-case='{case}'][data-waiting='1']")).to_have_count(0)


def ten_with(page: Page, counter: Counter) -> None:
    """Accept all that are alike, after the preview."""
    shown(page)
    counter.press("A")
    page.locator(".mod-will").wait_for()
    counter.press("Enter")
    page.locator(".mod-will").wait_for(state="detached")


def shown(page: Page) -> str:
    expect(page.locator("#item")).not_to_have_attribute("aria-busy", "true")
    return page.locator("#item [data-case]").get_attribute("data-case") or ""


def counted(desk: ModeratorBrowser, way: Callable[[Page, Counter], None], decisions: int) -> Counter:
    """Return the counts of a way, each on a page of its own, and check that it made so many decisions."""
    before = desk.figures()[1]
    page = desk.open_queue()
    page.wait_for_load_state("networkidle")
    if folder := os.environ.get("BENCH_SCREENSHOTS"):
        page.screenshot(path=str(Path(folder) / f"{way.__name__}.png"), full_page=True)
    counter = Counter(page)
    way(page, counter)
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (made := desk.figures()[1] - before) != decisions:
        if time.monotonic() > give_up_at:
            raise SystemExit(f"{way.__name__} made {made} decisions.")
        page.wait_for_timeout(100)
    page.context.close()
    return counter


def main() -> None:
    given = arguments(__doc__ or "")
    server = EmbeddingServer()
    server.sizes, server.spread = {"concepts": 64}, 0.5
    server.start()
    extra = {
        "STOA_MODERATION_SUGGESTIONS": "true",
        "STOA_SEARCH_MODEL": "concepts",
        "STOA_MODERATION_UNDO_MINUTES": "1",
    }
    with running_chromium() as browser, served_shop(provider_url=server.url, extra=extra) as shop:
        manage(shop.environment, "shell", "-v", "0", "-c", FILL)
        desk = ModeratorBrowser(shop, browser)
        ways = {"one, with a template's text": (one_without, one_with, 1)}
        figures = [(name, counted(desk, old, n), counted(desk, new, n)) for name, (old, new, n) in ways.items()]
        grouped = counted(desk, ten_with, ALIKE)
        manage(shop.environment, "shell", "-v", "0", "-c", FILL.replace(str(ALIKE + 2), str(ALIKE)))
        figures.append((f"{ALIKE} alike, without a text", counted(desk, ten_without, ALIKE), grouped))
    server.stop()
    rows = []
    for name, old, new in figures:
        rows.append(Comparison(f"{name}: key presses", new.keys, old.keys, "keys"))
        rows.append(Comparison(f"{name}: page loads", new.loads, old.loads, "pages"))
    publish(rows, given.json)


if __name__ == "__main__":
    main()
