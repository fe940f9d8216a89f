"""Pools whose members are killed, or are wrong in other ways: no request is lost before its first token."""

import asyncio
import json

import httpx2

from tests.benchmarks.pools._pools import MEMBER_KEY, MODEL, MemberProcess, measure, running_pool
from tests.inference.running_server import RunningServer, run_commands

SECONDS = 20.0
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}


def test_no_request_is_lost_before_its_first_token_while_members_are_killed():
    members = [MemberProcess(f"fake-{number}") for number in range(16)]
    with running_pool(members) as server:
        calm, killed, kills, errors = asyncio.run(measure(server, members, streams=64, tokens=40, seconds=SECONDS))
        log = server.log.read_text()

    assert kills >= 2
    assert (calm.lost, calm.cut, killed.lost) == (0, 0, 0), errors
    assert killed.turns > 64
    assert all("was lost; try again" in error for error in errors)
    assert killed.cached_share > 0.9, killed.cached_share
    assert MEMBER_KEY not in log


def test_bad_members_are_named_with_what_is_wrong_and_lose_no_request():
    bad = {
        "wrong-key": ("--key", "another"),
        "other-model": ("--key", MEMBER_KEY, "--model", "small"),
        "garbage": ("--garbage",),
        "late-clock": ("--key", MEMBER_KEY, "--clock-seconds", "-3600"),
    }
    members = [*(MemberProcess(name, options) for name, options in bad.items()), MemberProcess("good")]
    with running_pool([*members]) as server:
        answers = ask(server, 40)
        [model] = [one for one in server.get("/models").json()["models"] if one["id"] == MODEL]
        listed, tested = run_commands(server.environment, ["pools", "list", "--json"], ["pools", "test", MODEL])
        log = server.log.read_text()

    assert answers == ["w00 w01 "] * 40
    assert model["state"] == "loaded"
    for states in (
        {one["name"]: (one["state"], one["error"] or one["warning"] or "") for one in model["members"]},
        {one["member"]: (one["state"], one["error"] or one["warning"] or "") for one in json.loads(listed.stdout)},
    ):
        assert {name: state for name, (state, _) in states.items()} == dict.fromkeys(
            ("wrong-key", "other-model", "garbage"), "failed"
        ) | dict.fromkeys(("late-clock", "good"), "ready")
        assert "rejects the configured API key" in states["wrong-key"][1]
        assert "does not list the model" in states["other-model"][1]
        assert "OpenAI's form" in states["garbage"][1] or "another form than OpenAI's" in states["garbage"][1]
        assert "clock is 3" in states["late-clock"][1]
        assert states["good"][1] == ""
    assert tested.returncode == 1
    assert "good\tok" in tested.stdout
    assert MEMBER_KEY not in log + listed.stdout + listed.stderr + tested.stdout + tested.stderr


def ask(server: RunningServer, count: int) -> list[str]:
    """Return the answers to chats that begin differently, so that every member is the first choice of some."""
    with httpx2.Client(base_url=server.url, headers=server.headers(), timeout=60) as client:
        return [
            client.post("/v1/chat/completions", json=HELLO | {"messages": [{"role": "user", "content": f"{number}"}]})
            .raise_for_status()
            .json()["choices"][0]["message"]["content"]
            for number in range(count)
        ]
