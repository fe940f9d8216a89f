"""The admin of models in a browser: their states, loading and unloading."""

import re
import shutil
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium, sign_in
from tests.inference.running_server import PASSWORD, TALKER_CONFIG, RunningServer, add_model
from tests.page_checks import check_look, check_page

MODELS = "/admin/inference_registry/desiredmodel/"
PAGES = ["/admin/", MODELS, "/admin/health/", "/admin/inference_batches/batch/", "/admin/accounts/user/"]

pytestmark = pytest.mark.no_database


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, stoa: RunningServer) -> Iterator[Page]:
    """A browser page, signed in as the super admin."""
    context = browser.new_context()
    sign_in(context, stoa.url + MODELS, email="super_admin@example.com", password=PASSWORD)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(stoa.url + MODELS)
    yield page
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_violation_on_a_page(stoa: RunningServer, page: Page, path: str):
    page.goto(stoa.url + path)
    page.wait_for_load_state("networkidle")
    check_look(page)


def test_axe_finds_no_violation_on_the_sign_in_page(stoa: RunningServer, browser: Browser):
    check_page(browser, f"{stoa.url}/admin/login/")


def test_an_operator_sees_what_is_wrong_and_what_to_do(stoa: RunningServer, page: Page):
    page.get_by_role("link", name="Health").click()

    row = page.locator("tr", has_text="workers")
    expect(row).to_contain_text("problem")  # this server has none
    expect(row).to_contain_text("Start one")
    expect(page.locator("tr", has_text="model host")).to_contain_text("2 models are loaded.")
    customer = httpx2.get(f"{stoa.url}/admin/health/", timeout=60)
    assert (customer.status_code, "/admin/login/" in customer.headers["Location"]) == (302, True)


def test_an_operator_lists_loads_and_unloads_models(stoa: RunningServer, page: Page):
    page_errors: list[str] = []
    page.on("pageerror", lambda error: page_errors.append(str(error)))
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
    assert page_errors == []


def test_an_operator_loads_a_model_with_replicas_and_sees_each(stoa: RunningServer, page: Page):
    row = page.locator("tr", has_text="idle")
    row.get_by_text("Load", exact=True).click()
    page.fill("input[name=replicas]", "2")
    page.get_by_role("button", name="Load").click()

    expect(row.get_by_text("Replica 0: loaded")).to_be_visible(timeout=60_000)
    expect(row.get_by_text("Replica 1: loaded")).to_be_visible(timeout=60_000)
    expect(row.get_by_text("loaded", exact=True)).to_be_visible(timeout=60_000)
    row.get_by_role("button", name="Unload").click()
    expect(row.get_by_text("unloaded", exact=True)).to_be_visible(timeout=60_000)


def test_the_reason_of_a_failed_load_is_shown(page: Page):
    page.locator("tr", has_text="broken-one").get_by_text("Load", exact=True).click()
    page.get_by_role("button", name="Load").click()

    expect(page.locator("body")).to_contain_text("weights are missing")
    expect(page.locator("tr", has_text="broken-one")).to_contain_text("failed")


def test_a_model_without_files_is_shown_with_its_remedy_and_can_be_unloaded(stoa: RunningServer, page: Page):
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
def test_the_pages_require_a_sign_in(stoa: RunningServer, path: str):
    answer = httpx2.get(stoa.url + path, timeout=60)

    assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (302, "/admin/login/")
    for verb in ("load", "unload"):
        forged = httpx2.post(f"{stoa.url}{MODELS}{verb}/", data={"model": "talker"}, timeout=60)
        assert forged.status_code in (302, 403)
    assert {model["id"] for model in stoa.get("/models").json()["models"] if model["loaded"]} >= {"talker"}


def test_m1_an_unknown_id_is_refused_on_the_pages(stoa: RunningServer, page: Page):
    page.goto(f"{stoa.url}{MODELS}load/?model=..%2Ftalker")

    expect(page.locator("body")).to_contain_text("There is no model '../talker'")
    assert page.url == stoa.url + MODELS
