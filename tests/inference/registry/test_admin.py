"""The operators' pages: models with their state, loading and unloading. In a browser where one is installed."""

import re
import shutil
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.chromium import running_chromium
from tests.inference.served import PASSWORD, TALKER_CONFIG, ServedStoa, add_model

MODELS = "/admin/inference_registry/wantedmodel/"


@pytest.fixture
def page(stoa: ServedStoa) -> Iterator[Page]:
    """A browser in which the super admin has signed in."""
    with running_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{stoa.url}/admin/")
        page.fill("input[name=username]", "super_admin@example.com")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        page.goto(stoa.url + MODELS)
        yield page


def test_an_operator_sees_loads_and_unloads_models(stoa: ServedStoa, page: Page):
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    row = page.locator("tr", has_text="idle")
    expect(row).to_contain_text("unloaded")
    row.get_by_text("Load", exact=True).click()
    page.fill("input[name=context_size]", "256")
    page.get_by_role("button", name="Load").click()

    expect(page.get_by_text(re.compile("idle is load(ed|ing)"))).to_be_visible()
    expect(row.get_by_text("loaded", exact=True)).to_be_visible(timeout=60_000)
    expect(row).to_contain_text("256")
    models = {model["id"]: model for model in stoa.get("/models").json()["models"]}
    assert (models["idle"]["state"], models["idle"]["context_size"]) == ("loaded", 256)

    row.get_by_role("button", name="Unload").click()
    expect(row.get_by_text("unloaded", exact=True)).to_be_visible(timeout=60_000)
    assert faults == []


def test_why_a_model_does_not_load_is_shown(page: Page):
    page.locator("tr", has_text="broken-one").get_by_text("Load", exact=True).click()
    page.get_by_role("button", name="Load").click()

    expect(page.locator("body")).to_contain_text("weights are missing")
    expect(page.locator("tr", has_text="broken-one")).to_contain_text("failed")


def test_a_model_whose_files_are_gone_is_shown_with_what_to_do_and_unloaded(stoa: ServedStoa, page: Page):
    folder = add_model(stoa.models_dir, "vanished", dict(TALKER_CONFIG))
    assert stoa.post("/models/vanished/load").status_code == 200
    shutil.rmtree(folder)
    page.reload()
    row = page.locator("tr", has_text="vanished")
    expect(row.get_by_text("loaded", exact=True)).to_be_visible()
    expect(row).to_contain_text("Its files are in no folder of STOA_MODELS_DIR")
    expect(row.get_by_text("Load", exact=True)).to_have_count(0)

    row.get_by_role("button", name="Unload").click()
    expect(page.get_by_text("vanished is unloaded.")).to_be_visible()
    expect(row).to_have_count(0)


@pytest.mark.parametrize("path", [MODELS, f"{MODELS}load/?model=idle"])
def test_the_pages_are_for_who_has_signed_in(stoa: ServedStoa, path: str):
    answer = httpx2.get(stoa.url + path, timeout=60)

    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (302, "/admin/login/")
    for verb in ("load", "unload"):
        forged = httpx2.post(f"{stoa.url}{MODELS}{verb}/", data={"model": "talker"}, timeout=60)
        assert forged.status_code in (302, 403)
    assert {model["id"] for model in stoa.get("/models").json()["models"] if model["loaded"]} >= {"talker"}


def test_m1_an_id_that_is_no_model_is_refused_on_the_pages(stoa: ServedStoa, page: Page):
    page.goto(f"{stoa.url}{MODELS}load/?model=..%2Ftalker")

    expect(page.locator("body")).to_contain_text("There is no model '../talker'")
    assert page.url == stoa.url + MODELS
