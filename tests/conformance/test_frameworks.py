"""openai-agents, pydantic-ai and litellm run their quick-starts against the model server.

They need other versions of packages than Stoa does: each runs as a script in a virtual environment of its own.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.running_stoa import CHECKOUT, RunningStoa

SCRIPTS = Path(__file__).parent / "frameworks"
VENV = CHECKOUT / ".venv" / "frameworks"
MODEL = "stoa-describer"
INSTRUCTIONS = "You write product descriptions for an online shop."
TEXT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"


def run_script(stoa: RunningStoa, name: str, *arguments: str) -> dict[str, Any]:
    """Return what a script printed. Without the frameworks the test is skipped, but never in CI."""
    if not (VENV / "stoa-stamp").exists():
        reason = "The frameworks are not installed: `deploy/run test` installs them where it can download them."
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    environment = {"PATH": os.environ["PATH"], "STOA_URL": stoa.inference_url, "STOA_KEY": stoa.api_key}
    command = [str(VENV / "bin" / "python"), str(SCRIPTS / name), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def text_of_chat(stoa: RunningStoa, *messages: dict[str, str]) -> str:
    """Return what the model writes without a framework."""
    body = {"model": MODEL, "messages": messages, "temperature": 0}
    answer = httpx2.post(f"{stoa.inference_url}/v1/chat/completions", json=body, headers=stoa.headers(), timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


@pytest.mark.parametrize(
    ("api", "mode"), [("responses", "whole"), ("responses", "stream"), ("chat", "whole")], ids=lambda one: one
)
def test_an_agent_calls_two_tools_and_goes_on_after_a_call_that_was_cut_off(stoa: RunningStoa, api: str, mode: str):
    told = run_script(stoa, "_openai_agents.py", api, mode)

    items = [tuple(item) for item in told["items"]]
    if api == "chat":  # the run itself goes on
        cut_call, complaint, *items = items
        assert cut_call[:2] == ("call", "paint")
        assert complaint[0] == "output"
    else:  # this framework ends a run at an incomplete response, and the next one goes on
        assert "response.incomplete" in told["cut"]
        assert "max_output_tokens" in told["cut"]
    with pytest.raises(json.JSONDecodeError):
        json.loads(told["history"][0]["arguments"])
    paint, painted, count, counted, message = items
    colour, legs = json.loads(paint[2])["colour"], json.loads(count[2])["legs"]
    assert paint[:2] == ("call", "paint")
    assert painted == ("output", f"painted {colour}")
    assert count[:2] == ("call", "count_legs")
    assert counted == ("output", f"{legs} legs")
    assert message == ("message", told["final"])
    assert re.search(r"\w", told["final"])
    assert told["streamed"] == (told["final"] if mode == "stream" else "")
    assert told["tokens"] > 0


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_pydantic_ai_writes_streams_and_fills_models(stoa: RunningStoa, api: str):
    told = run_script(stoa, "_pydantic_ai.py", api)

    expected = text_of_chat(stoa, {"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": TEXT})
    assert told["text"] == told["streamed"] == expected
    assert told["followed"]
    for stool in (told["native"], told["called"]):
        assert stool["colour"] in ("red", "blue")
        assert stool["legs"] in (3, 4)
    assert all(count > 0 for count in told["tokens"])


def test_litellm_completes_streams_calls_and_retrieves(stoa: RunningStoa):
    told = run_script(stoa, "_litellm.py")

    expected = text_of_chat(stoa, {"role": "user", "content": TEXT})
    assert {told[name] for name in ("text", "streamed", "response", "response_streamed", "retrieved")} == {expected}
    assert json.loads(told["arguments"])["colour"] in ("red", "blue")
    assert told["tokens"] > 0
