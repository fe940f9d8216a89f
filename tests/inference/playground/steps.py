"""Steps of a user of the playground."""

from playwright.sync_api import Page, expect

SLOW_MS = 30_000


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Model")).to_be_visible(timeout=SLOW_MS)
    page.get_by_label("Model").select_option("talker")


def set_mode(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).check(force=True)


def say(page: Page, text: str) -> None:
    """Send a message, and wait until its answer is whole."""
    page.get_by_label("Your message").fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Regenerate")).to_be_visible()
