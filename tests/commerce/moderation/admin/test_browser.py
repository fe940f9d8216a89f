"""Moderation in a real browser by keyboard. The tests share one shop, and the last one empties its queue."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.chromium import running_chromium
from tests.commerce.live_server import manage, served_shop
from tests.commerce.moderation.admin.moderator_browser import PATIENCE_MS, QUEUE, ModeratorBrowser

pytestmark = pytest.mark.no_database

EVERY_DAY, WEIGHT_SCALE = 30, 200  # more than one page of the list; a moderator's hour
FILL = "from tests.commerce.moderation.sample_queue import fill_queue; fill_queue({})"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def desk(browser: Browser, whole: bool) -> Iterator[ModeratorBrowser]:
    with served_shop(provider_url="http://127.0.0.1:9") as shop:
        manage(shop.environment, "shell", "-v", "0", "-c", FILL.format(WEIGHT_SCALE if whole else EVERY_DAY))
        yield ModeratorBrowser(shop, browser)


def shown(page: Page) -> str:
    """Return the selected case, once its page has loaded."""
    expect(page.locator("#item")).not_to_have_attribute("aria-busy", "true", timeout=PATIENCE_MS)
    return page.locator("#item [data-case]").get_attribute("data-case") or ""


def press_and_move_on(page: Page, key: str) -> None:
    before = shown(page)
    page.keyboard.press(key)
    expect(page.locator(f"#item [data-case='{before}']")).to_have_count(0, timeout=PATIENCE_MS)


@pytest.mark.timeout(600)
def test_the_second_of_two_moderators_sees_the_claim_and_the_refusal(desk: ModeratorBrowser):
    first, second = desk.open_queue(), desk.open_queue()
    case = shown(first)
    assert shown(second) == case
    first.wait_for_load_state("networkidle")

    press_and_move_on(first, "r")
    expect(first.locator("#outcome")).to_contain_text("Kept")
    press_and_move_on(second, "a")

    expect(second.locator("#outcome")).to_contain_text("Your decision was not counted.")
    expect(second.locator(f"#rows [data-case='{case}'] .mod-outcome-badge")).to_contain_text("decided first: Kept.")
    assert desk.figures()[1:] == [1, 1]  # by people, and about one item


@pytest.mark.timeout(600)
def test_a_refused_decision_leaves_the_earlier_one_undoable(desk: ModeratorBrowser):
    first, second = desk.open_queue(), desk.open_queue()
    before = desk.figures()
    press_and_move_on(second, "r")
    expect(second.locator("#outcome")).to_contain_text("Kept")
    case = shown(second)
    first.locator(f"#rows [data-case='{case}'] a").click()
    press_and_move_on(first, "a")
    expect(first.locator("#outcome")).to_contain_text("Taken down")
    held: list[Route] = []
    second.route("**/decide/", lambda route: held.append(route))
    press_and_move_on(second, "a")  # the same item, and its answer waits
    second.keyboard.press("u")
    second.wait_for_timeout(200)
    held[0].continue_()
    expect(second.locator("#outcome")).to_contain_text("Your decision was not counted.")

    second.keyboard.press("u")
    expect(second.locator("#outcome")).to_contain_text("Undone: Kept")
    first.keyboard.press("u")
    expect(first.locator("#outcome")).to_contain_text("Undone: Taken down")
    assert desk.figures() == before


@pytest.mark.timeout(600)
def test_the_queue_works_without_scripts_on_small_screens_and_right_to_left(desk: ModeratorBrowser):
    plain = desk.open_queue(java_script_enabled=False)
    plain.locator("#rows [data-case] a").nth(1).click()
    plain.locator("#item button[value=accepted]").click()
    expect(plain.locator(".mod-done")).to_contain_text("Taken down.")
    plain.locator(".mod-done button").click()
    expect(plain.locator("body")).to_contain_text("Undone: Taken down")

    narrow = desk.open_queue(viewport={"width": 390, "height": 844})
    for direction in ("ltr", "rtl"):
        narrow.goto(f"{desk.shop.url}{QUEUE}")
        narrow.evaluate(f"document.documentElement.dir = '{direction}'")
        expect(narrow.locator("#item")).to_be_hidden()
        narrow.locator("#rows [data-case] a").nth(2).click()
        expect(narrow.locator("#item button[value=accepted]")).to_be_in_viewport()
        assert narrow.evaluate("document.documentElement.scrollWidth <= innerWidth")
        narrow.go_back()
        expect(narrow.locator("#item")).to_be_hidden()

    short = desk.open_queue(viewport={"width": 320, "height": 568})
    address = short.locator("#rows [data-case] a").first.get_attribute("href")
    short.goto(f"{desk.shop.url}{QUEUE}{address}")
    text = short.locator("#item .mod-text").first
    expect(text).to_be_visible()
    covered = """text => {
        text.scrollIntoView({block: "center"});
        return !text.contains(document.elementFromPoint(innerWidth / 2, text.getBoundingClientRect().y + 4));
    }"""
    assert not text.evaluate(covered)


@pytest.mark.timeout(600)
def test_a_moderator_clears_the_queue_by_keyboard(desk: ModeratorBrowser):
    page = desk.open_queue()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    waiting, made, _cases = desk.figures()
    expect(page.locator("#list-title")).to_have_text(re.compile(rf"^\s*{waiting} items wait"))

    first = shown(page)
    press_and_move_on(page, "j")
    press_and_move_on(page, "k")
    assert shown(page) == first

    page.keyboard.press("m")
    page.keyboard.type("arrh: an advertisement")  # text, and no decision
    page.keyboard.press("Escape")
    press_and_move_on(page, "a")
    expect(page.locator("#outcome")).to_contain_text("Taken down")
    press_and_move_on(page, "u")
    expect(page.locator("#outcome")).to_contain_text("Undone: Taken down")
    assert shown(page) == first
    assert desk.figures()[:2] == [waiting, made]

    for number in range(waiting - 1):
        press_and_move_on(page, "ar"[number % 2])
    page.keyboard.press("a")
    expect(page.locator("#empty")).to_be_visible(timeout=PATIENCE_MS)

    assert desk.figures()[:2] == [0, made + waiting]
    expect(page.locator("#list-title")).to_have_text(re.compile(r"^\s*0 items wait"))
    assert wrong == []
