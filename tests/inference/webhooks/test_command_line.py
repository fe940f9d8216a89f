"""`stoa webhooks` as an operator uses it."""

import json
from typing import Any

import httpx2
import pytest

from tests.inference.served import ServedStoa, run_verbs


@pytest.mark.timeout(300)  # it starts several programs
def test_what_was_given_up_is_listed_and_sent_again(stoa: ServedStoa, announce: Any):
    headers = stoa.headers("STAFF")
    body = {"url": "https://93.184.216.34/hook"}
    made = httpx2.post(f"{stoa.url}/webhooks", json=body, headers=headers, timeout=60).json()
    path = f"{stoa.url}/webhooks/{made['id']}"
    announce("STAFF", 3)  # two of them are given up

    told, nobodys = run_verbs(
        stoa.environment, ["webhooks", "failed", "--json"], ["webhooks", "failed", "--user", "999999", "--json"]
    )
    first, second = json.loads(told.stdout)
    sent, unknown = run_verbs(
        stoa.environment,
        ["webhooks", "redeliver", first["id"], second["id"]],
        ["webhooks", "redeliver", first["id"], "msg_0"],
    )
    after = httpx2.get(f"{path}/deliveries", headers=headers, timeout=60).json()["deliveries"]
    httpx2.patch(path, json={"enabled": False}, headers=headers, timeout=60)
    (refused,) = run_verbs(stoa.environment, ["webhooks", "redeliver", first["id"]])
    httpx2.delete(path, headers=headers, timeout=60)

    assert json.loads(nobodys.stdout) == []
    assert first.pop("given_up_at") is not None
    assert first | {"id": ""} == {
        "id": "",
        "user": "staff@example.com",
        "destination": "93.184.216.34:443",
        "attempts": 1,
        "status": 500,
        "failure": "status",
    }
    assert (sent.returncode, sent.stderr) == (0, "To be sent again: 2.\n")
    assert (unknown.returncode, "no delivery msg_0" in unknown.stderr) == (4, True)
    assert [delivery["state"] for delivery in after] == ["pending"] * 3
    assert (refused.returncode, "enable it first: 1." in refused.stderr) == (1, True)
