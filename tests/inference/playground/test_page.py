"""The playground in a real browser."""

import json
import re

from playwright.sync_api import Page, ViewportSize, expect

from tests.inference.playground.steps import SLOW_MS, set_mode, sign_in
from tests.inference.running_server import PASSWORD, RunningServer

PHONE: ViewportSize = {"width": 360, "height": 740}


def test_a_chat_by_keyboard_alone(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    expect(page.get_by_role("status")).to_have_text("staff@example.com")
    page.get_by_label("Max tokens").fill("3")
    page.get_by_label("Your message").focus()
    page.keyboard.type("hello")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("<b>there</b>")
    page.keyboard.press("Enter")

    said = page.locator(".said")
    expect(said).to_have_text(["hello\n<b>there</b>", "w0 w1 w2"], timeout=SLOW_MS)
    expect(page.locator("#ended")).to_have_text("length")
    expect(page.locator("#tokens")).to_have_text("0 in, 3 out")
    expect(page.locator("#first-token")).to_have_text(re.compile(r"^\d+ ms$"))
    expect(page.locator("#rate")).to_have_text(re.compile(r"^[\d.]+$"))
    expect(page.get_by_label("Your message")).to_be_focused()

    page.keyboard.type("again")
    page.keyboard.press("Enter")
    expect(said).to_have_count(4, timeout=SLOW_MS)


def test_tokens_come_as_they_are_made_and_escape_stops(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    set_mode(page, "Complete")
    page.get_by_label("Max tokens").fill("3000")
    page.get_by_label("The beginning of a text").fill("speak")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".assistant")).to_contain_text("w5", timeout=SLOW_MS)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#ended")).to_have_text("cancelled", timeout=SLOW_MS)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_response_goes_on_when_its_connection_is_cut(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    set_mode(page, "Response")
    page.get_by_label("Max tokens").fill("400")
    page.get_by_label("Your message").fill("speak")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".assistant")).to_contain_text("w5", timeout=SLOW_MS)
    page.get_by_role("button", name="Cut the connection").click()

    expect(page.locator("#connection")).to_have_text(re.compile(r"^Cut after event \d+\."))
    expect(page.locator("#connection")).to_have_text(
        re.compile(r"^Resumed at event \d+ after \d+ ms\.$"), timeout=SLOW_MS
    )
    expect(page.locator("#ended")).to_have_text("length", timeout=SLOW_MS)
    expect(page.locator(".assistant")).to_have_text("".join(f"w{n} " for n in range(400)).strip())
    expect(page.locator("#tokens")).to_have_text("0 in, 400 out")


def test_a_chat_cleared_during_a_response_is_not_sent_again(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Max tokens").fill("3000")
    page.get_by_label("Your message").fill("a secret")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant")).to_contain_text("w5", timeout=SLOW_MS)
    page.get_by_role("button", name="New chat").click()
    expect(page.locator("#ended")).to_have_text("cancelled", timeout=SLOW_MS)

    page.get_by_label("Your message").fill("hello")
    expect(page.locator("#code")).to_contain_text("hello")
    expect(page.locator("#code")).not_to_contain_text("a secret")


def test_signing_out_clears_the_conversation(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Max tokens").fill("3000")
    page.get_by_label("Your message").fill("a secret")
    page.keyboard.press("Enter")
    expect(page.locator(".assistant")).to_contain_text("w5", timeout=SLOW_MS)
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#stop")).to_have_attribute("hidden", "", timeout=SLOW_MS)

    sign_in(page, stoa.keys["STAFF"])
    expect(page.get_by_label("Your message")).to_have_value("")


def test_signing_in_by_e_mail_a_wrong_credential_and_signing_out(page: Page):
    page.get_by_label("API key").fill("stoa_0_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("wrong, expired or revoked", timeout=SLOW_MS)

    page.get_by_label("E-mail").fill("staff@example.com")
    page.get_by_label("Password").fill("not this one")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The e-mail address or the password is wrong.", timeout=SLOW_MS)

    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("staff@example.com", timeout=SLOW_MS)
    page.reload()
    expect(page.get_by_role("status")).to_have_text("staff@example.com", timeout=SLOW_MS)
    assert page.context.cookies() == []

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_focused()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_customer_gets_a_permission_error(page: Page, stoa: RunningServer):
    page.get_by_label("API key").fill(stoa.keys["CUSTOMER"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("permission", timeout=SLOW_MS)


def test_a_refused_request_shows_the_error_and_keeps_the_input(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Model").select_option("idle")
    page.get_by_label("Your message").fill("hello")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_label("Your message")).to_have_value("hello")
    expect(page.locator(".said")).to_have_count(0)


def test_the_snippet_has_the_typed_input_or_else_the_last_request(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    code = page.locator("#code")
    expect(code).to_contain_text('"content": "Hello"')
    for words in ("one", "two"):
        page.get_by_label("Your message").fill(words)
        page.keyboard.press("Enter")
        expect(page.locator("#ended")).to_have_text("length", timeout=SLOW_MS)
    assert re.findall(r'"content": "(\w+)', code.inner_text()) == ["one", "w0", "two"]
    page.get_by_label("Your message").fill("three")
    assert re.findall(r'"content": "(\w+)', code.inner_text()) == ["one", "w0", "two", "w0", "three"]


def test_the_request_is_shown_as_code_that_works(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Your message").fill('it\'s "so"')
    page.get_by_label("Stop at").fill("END")
    code = page.locator("#code")
    expect(code).to_contain_text("/v1/chat/completions")
    expect(code).to_contain_text("it'\\''s")
    page.get_by_role("radio", name="Python").check(force=True)
    compile(code.inner_text(), "chat", "exec")
    expect(code).to_contain_text('stop=["END"]')
    set_mode(page, "Complete")
    page.get_by_label("The beginning of a text").fill("line\nbreak \\ and é")
    compile(code.inner_text(), "complete", "exec")
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == code.inner_text()


def test_the_snippet_has_the_defaults_that_empty_fields_send(page: Page, stoa: RunningServer):
    sent: list[str | bytes] = []

    def note(frame: str | bytes) -> None:
        sent.append(frame)

    page.on("websocket", lambda socket: socket.on("framesent", note))
    sign_in(page, stoa.keys["STAFF"])
    for label in ("Max tokens", "Temperature", "Top p", "Top k", "Repeat penalty"):
        page.get_by_label(label).fill("")
    page.get_by_label("Your message").fill("hello")
    page.keyboard.press("Enter")
    expect(page.locator("#ended")).to_have_text("length", timeout=SLOW_MS)

    asked = json.loads(sent[-1])
    shown = json.loads(page.locator("#code").inner_text().split("-d '")[1].rstrip("'"))
    parameters = {"max_tokens": 100, "temperature": 1, "top_p": 1, "top_k": 0, "repeat_penalty": 1}
    assert shown == {"model": "talker", "messages": [{"role": "user", "content": "hello"}], "stream": True} | parameters
    assert {name: asked[name] for name in shown if name != "stream"} | {"stream": True} == shown


def test_on_a_phone_nothing_is_wider_than_the_screen_and_all_can_be_reached(page: Page, stoa: RunningServer):
    page.set_viewport_size(PHONE)
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Your message").fill("x" * 300)
    page.keyboard.press("Enter")
    expect(page.locator("#ended")).to_have_text("length", timeout=SLOW_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for place in page.locator("button, input:not([type=radio]), select, .modes label").all():
        if place.is_visible():
            place.scroll_into_view_if_needed()
            box = place.bounding_box()
            assert box is not None
            assert box["height"] >= 42


def test_the_page_loads_nothing_but_its_own_files_and_allows_nothing_inline(stoa: RunningServer):
    answer = stoa.get("/playground")
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"(?:src|href)=\"(?![/#])", answer.text) == []
