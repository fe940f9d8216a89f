"""The command `stoa webhooks`."""

import json
from typing import Any

import httpx2
import pytest

from tests.inference.running_server import RunningServer, run_commands


@pytest.mark.no_database
@pytest.mark.timeout(300)  # starts several processes
def test_failed_deliveries_are_listed_and_redelivered(stoa: RunningServer, announce: Any):
    headers = stoa.headers("STAFF")
    body = {"url": "https://93.184.216.34/hook"}
    endpoint = httpx2.post(f"{stoa.url}/webhooks", json=body, headers=headers, timeout=60).json()
    path = f"{stoa.url}/webhooks/{endpoint['id']}"
    announce("STAFF", 3)  # two of the deliveries have failed

    listed, none = run_commands(
        stoa.environment, ["webhooks", "failed", "--json"], ["webhooks", "failed", "--user", "999999", "--json"]
    )
    first, second = json.loads(listed.stdout)
    sent, unknown = run_commands(
        stoa.environment,
        ["webhooks", "redeliver", first["id"], second["id"]],
        ["webhooks", "redeliver", first["id"], "msg_0"],
    )
    after = httpx2.get(f"{path}/deliveries", headers=headers, timeout=60).json()["deliveries"]
    httpx2.patch(path, json={"enabled": False}, headers=headers, timeout=60)
    (refused,) = run_commands(stoa.environment, ["webhooks", "redeliver", first["id"]])
    httpx2.delete(path, headers=headers, timeout=60)

    assert json.loads(none.stdout) == []
    assert first.pop("given_up_at") is not None
    assert first | {"id": ""} == {
        "id": "",
        "user": "staff@example.com",
        "destination": "93.184.216.34:443",
        "attempts": 1,
        "status": 500,
        "failure": "status",
    }
    assert (sent.returncode, sent.stderr) == (0, "Queued again: 2.\n")
    assert (unknown.returncode, "no delivery msg_0" in unknown.stderr) == (4, True)
    assert [delivery["state"] for delivery in after] == ["pending"] * 3
    assert (refused.returncode, "enable it first: 1." in refused.stderr) == (1, True)
