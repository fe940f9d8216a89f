"""Checks of pages in a browser: axe, overflow, and the header of both servers' pages."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # describing what satisfies a rule takes half of the time
}
WITHOUT_CONTRAST: dict[str, Any] = {"rules": {"color-contrast": {"enabled": False}}}  # slow, and the same at each width
# Both schemes and three widths; contrast once in each scheme.
LOOKS: list[tuple[str, int, dict[str, Any]]] = [
    ("light", 320, {}),
    ("light", 768, WITHOUT_CONTRAST),
    ("dark", 1280, {}),
]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def find_violations(page: Page, part: str | None = None, **options: Any) -> list[str]:
    """Return axe's violations on a page or a part of it, each with its rule and element."""
    found: list[dict[str, Any]] = Axe().run(page, context=part, options=RULES | options).response["violations"]
    return [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def check_look(page: Page, part: str | None = None) -> None:
    """Check a page, or a part of it, with axe at three widths, light and dark; nothing is wider than the window."""
    for scheme, width, options in LOOKS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        violations = find_violations(page, part, **options)
        assert violations == [], (page.url, scheme, width, violations)  # this file's assertions are plain
        assert page.evaluate(OVERFLOW) == 0, (page.url, scheme, width)


def check_page(browser: Browser, url: str, *, part: str | None = None) -> None:
    """Check the look of a page, or of a part of it, and that nothing is an error to the browser."""
    page = browser.new_page()
    messages: list[ConsoleMessage] = []
    page.on("console", lambda message: messages.append(message))  # Playwright takes functions only
    page.goto(url)
    page.wait_for_load_state("networkidle")
    check_look(page, part)
    errors = [message.text for message in messages if message.type == "error"]
    assert errors == [], url  # among them what the page's policy refuses
    page.close()


def follow_by_keyboard(browser: Browser, url: str, titles: list[str]) -> None:
    """Go through the header of a page, from its last link to the one past it, and follow that."""
    page = browser.new_page()
    page.goto(url)
    page.wait_for_load_state("networkidle")
    header = page.locator(".site-header")
    header.get_by_role("link", name=titles[-1], exact=True).focus()
    for title in [*titles[-2::-1], "Stoa", "Skip to the content"]:
        page.keyboard.press("Shift+Tab")
        expect(page.locator(":focus")).to_have_text(title)
        expect(page.locator(":focus")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.close()
