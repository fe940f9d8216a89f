"""Tests of what the playground offers beside a chat: saved chats, probabilities, tools, comparisons, models, code."""

import re

from playwright.sync_api import Page, expect

from tests.inference.playground.steps import SLOW_MS, say, set_mode, sign_in
from tests.inference.running_server import RunningServer
from tests.page_checks import check_look

MARKDOWN = {
    "**a** and *b* `<c>`\nd": "<p><strong>a</strong> and <em>b</em> <code>&lt;c&gt;</code>\nd</p>",
    "# A\n- b\n  - c\n- d": "<h3>A</h3><ul><li>b<ul><li>c</li></ul></li><li>d</li></ul>",
    "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
    "> a\n\n---": "<blockquote><p>a</p></blockquote><hr>",
    "```py\n**a**\n": '<pre tabindex="0"><code>**a**\n</code></pre>',
    "| a | b |\n|---|:-:|\n| 1 | 2 |": "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>",
    "[a](https://b.example)": '<p><a href="https://b.example" target="_blank" rel="noopener noreferrer">a</a></p>',
    "[a](javascript:alert(1))": "<p>[a](javascript:alert(1))</p>",
    "<img src=x onerror=alert(1)>": "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
    "2 * 3 * 4": "<p>2 * 3 * 4</p>",
    "": "",
}
RENDER = """texts => texts.map((text) => {
  const place = document.createElement("div");
  place.append(renderMarkdown(text));
  return place.innerHTML;
})"""
SHARES = "points => planePoints(similarities(points)).map(([x, y]) => Math.round(10 * x) / 10)"


def test_markdown_becomes_elements_and_html_stays_text(page: Page):
    assert page.evaluate(RENDER, list(MARKDOWN)) == list(MARKDOWN.values())
    hostile = [mark * 3000 for mark in ("*", "`", "[", "> ", "**a", "|-", "- ", "~~ ")]
    assert len(page.evaluate(RENDER, hostile)) == len(hostile)  # it ends


def test_a_chat_is_edited_regenerated_and_saved_in_the_tab(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Max tokens").fill("2")
    say(page, "one")
    say(page, "two")
    said = page.locator(".said")
    expect(said).to_have_text(["one", "w0 w1", "two", "w0 w1"])

    page.get_by_label("Max tokens").fill("3")
    page.get_by_role("button", name="Regenerate").press("Enter")
    expect(said).to_have_text(["one", "w0 w1", "two", "w0 w1 w2"])

    page.get_by_role("button", name="Edit message 1").press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Your message")).to_have_value("")
    page.get_by_role("button", name="Edit message 3").press("Enter")
    expect(page.get_by_label("Your message")).to_have_value("two")
    expect(page.get_by_label("Your message")).to_be_focused()
    say(page, "three")
    expect(said).to_have_text(["one", "w0 w1", "three", "w0 w1 w2"])

    page.get_by_role("button", name="New chat").click()
    say(page, "another")
    page.reload()
    expect(said).to_have_text(["another", "w0 w1 w2"])
    page.get_by_role("button", name="Open the chat: one").click()
    expect(said).to_have_text(["one", "w0 w1", "three", "w0 w1 w2"])
    page.get_by_role("button", name="Delete the chat: another").click()
    expect(page.locator("#chats li")).to_have_count(1)
    assert page.evaluate("localStorage.length") == 0


def test_chats_are_kept_in_the_browser_only_when_asked(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    say(page, "a secret")
    page.get_by_label("Keep chats in this browser").check()
    page.get_by_role("button", name="Sign out").click()
    assert page.evaluate("sessionStorage.length") == 0

    sign_in(page, stoa.keys["SUPER_ADMIN"])
    expect(page.locator("#chats li")).to_have_count(0)
    expect(page.get_by_label("Keep chats in this browser")).not_to_be_checked()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_role("button", name="Open the chat: a secret").click()
    expect(page.locator(".user")).to_have_text("a secret")
    page.get_by_label("Keep chats in this browser").uncheck()
    page.get_by_role("button", name="Sign out").click()
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]


def test_each_token_tells_its_probability(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Max tokens").fill("3")
    page.get_by_label("Show how probable").check()
    say(page, "hello")
    page.locator(".token").nth(1).hover()
    expect(page.locator("#token-detail")).to_have_text("“w1 ” 50 %  ·  “other ” 25 %")
    page.locator(".token").nth(1).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#token-detail")).to_contain_text("“w2 ” 50 %")
    page.get_by_label("Show how probable").uncheck()
    expect(page.locator(".token")).to_have_count(0)
    expect(page.locator(".assistant")).to_have_text("w0 w1 w2")


def test_a_tool_is_called_and_its_result_is_answered(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Max tokens").fill("3")
    page.locator("summary").press("Enter")
    page.get_by_label("Function definitions").fill("no list")
    page.get_by_label("Your message").fill("call")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Function definitions")).to_be_focused()
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".tool").first).to_contain_text('"product": "lamp"')
    expect(page.locator("#ended")).to_have_text("tool_calls")
    page.get_by_label("Result of look_up_price").fill("12 €")
    page.get_by_role("button", name="Return the results").click()
    expect(page.locator(".assistant")).to_have_text("w0 w1 w2")
    expect(page.locator("#code")).to_contain_text('"tool_call_id": "call_0"')


def test_sentences_are_mapped_and_documents_ranked(page: Page, stoa: RunningServer):
    assert page.evaluate(SHARES, [[1, 0], [1, 0], [0, 1]]) in ([0.5, 0.5, -0.9], [-0.5, -0.5, 0.9])
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Temperature").fill("9")  # of the chat: nothing that is hidden holds a request back
    set_mode(page, "Embed")
    expect(page.get_by_label("Model")).to_have_value("embedder")
    page.get_by_label("Sentences").fill("a\nbb\nc")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".map circle")).to_have_count(3)
    expect(page.get_by_role("row").nth(1)).to_have_text(re.compile(r"1\s*1\.00\s*0\.95\s*1\.00"))

    set_mode(page, "Rerank")
    page.get_by_label("Query").fill("tea")
    page.get_by_label("Documents").fill("xyz\ntea")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".ranked li span")).to_have_text(["tea", "xyz"])


def test_a_model_is_loaded_and_unloaded(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["SUPER_ADMIN"])
    page.get_by_label("Model").select_option("idle")
    page.get_by_role("button", name="Load", exact=True).press("Enter")
    expect(page.locator("#model-state")).to_contain_text("Loaded", timeout=SLOW_MS)
    expect(page.get_by_role("button", name="Unload")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#model-state")).to_contain_text("Not loaded", timeout=SLOW_MS)


def test_each_request_is_shown_as_code_that_runs(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    code = page.locator("#code")
    written: list[str] = []
    page.on("console", lambda message: written.append(message.text))
    for mode in ("Chat", "Complete", "Response", "Embed", "Rerank"):
        set_mode(page, mode)
        page.get_by_role("radio", name="Python").check(force=True)
        compile(code.inner_text(), mode, "exec")
        page.get_by_role("radio", name="JavaScript").check(force=True)
        process = f"{{env: {{API_KEY: '{stoa.keys['STAFF']}'}}, stdout: {{write: (text) => console.log(text)}}}}"
        page.evaluate(f"async () => {{ const process = {process};\n{code.inner_text()}\n}}")
        assert written, mode
        written.clear()


def test_axe_finds_no_violation_with_all_that_is_shown(page: Page, stoa: RunningServer):
    sign_in(page, stoa.keys["STAFF"])
    page.get_by_label("Show how probable").check()
    page.locator("summary").click()
    page.get_by_role("button", name="Insert an example").click()
    page.get_by_label("Your message").fill("call")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Result of")).to_be_visible()
    check_look(page)
