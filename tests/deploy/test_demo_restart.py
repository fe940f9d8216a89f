"""A demo that is stopped or killed: its processes end, and it starts again."""

import shutil
import signal

import httpx2
import pytest

from tests.running_stoa import CHECKOUT, RunningStoa, start_stoa, stop_stoa

MODEL = "stoa-describer"
BUILT_IN = CHECKOUT / "inference" / "builtin"


@pytest.mark.timeout(600)  # two starts of all of Stoa
def test_the_demo_leaves_no_process_and_starts_again_without_what_was_unloaded_or_fails_to_load(
    tmp_path_factory: pytest.TempPathFactory,
):
    home = tmp_path_factory.mktemp("ending")
    stoa = start_stoa(home)
    httpx2.post(f"{stoa.inference_url}/models/stoa-encoder/unload", headers=stoa.headers(), timeout=60)
    mine = home / "var" / "models" / "mine"
    shutil.copytree(BUILT_IN / MODEL, mine)
    loaded = httpx2.post(f"{stoa.inference_url}/models/mine/load", headers=stoa.headers(), timeout=60)
    assert loaded.json()["status"] == "loaded", loaded.text
    assert_it_ends(stoa, signal.SIGINT)
    (mine / "model.safetensors").write_bytes(b"damaged")

    again = start_stoa(home)
    models = httpx2.get(f"{again.inference_url}/models", headers=again.headers(), timeout=60).json()["models"]
    assert {model["id"]: model["loaded"] for model in models if model["id"] in (MODEL, "stoa-encoder", "mine")} == {
        MODEL: True,
        "stoa-encoder": False,
        "mine": False,
    }
    log = (home / "demo.log").read_text()
    assert "stoa-encoder stays unloaded, as an operator left it" in log
    assert "The model mine cannot be loaded: " in log
    assert_it_ends(again, signal.SIGKILL)


def assert_it_ends(stoa: RunningStoa, number: signal.Signals) -> None:
    assert stop_stoa(stoa, number) == []
    for url in (stoa.commerce_url, stoa.inference_url):
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/livez", timeout=60)
