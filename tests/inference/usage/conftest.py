"""Fixtures: several web processes over one database, Redis and model host, and API keys with various limits."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx2
import pytest

from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import (
    RunningServer,
    running_server_with_fake_models,
    start_server,
)

SETTINGS_MODULE = "tests.inference.usage.low_limits_settings"

# Creates the keys of a JSON argument, each for the user that its `user` names, or else for a user of its own.
_MAKE_KEYS = """
import json
import sys
import django
django.setup()
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key, create_user, set_key_limits, set_monthly_token_limit
now = timezone.now()
raw_keys = {}
for name, spec in json.loads(sys.argv[1]).items():
    email = f"{spec.get('user', name)}@users.example"
    user = User.objects.filter(email=email).first()
    user = user or create_user(email=email, name=name, password=None, role="STAFF", now=now)
    permissions = spec.get("permissions")
    key, raw_keys[name] = create_api_key(user=user, name=name, permissions=permissions, now=now)
    if limits := spec.get("limits"):
        set_key_limits(api_key=key, requests=limits[0], tokens=limits[1], concurrency=limits[2])
    if month := spec.get("month"):
        set_monthly_token_limit(user=user, tokens=month)
print(json.dumps(raw_keys))
"""

KEYS: dict[str, dict[str, object]] = {
    "plain": {},
    "other": {},
    "requests": {"limits": [50, None, None]},
    "tokens": {"limits": [None, 100, None]},
    "large": {"limits": [None, 5000, None]},
    "places": {"limits": [None, None, 5]},
    "two": {"limits": [None, None, 2]},
    "first": {"user": "twin"},
    "second": {"user": "twin"},
    "apart": {"user": "twin", "limits": [1000, None, None]},
    "narrow": {"user": "twin", "permissions": ["run_inference"]},
    "none": {"limits": [0, None, None]},
}


@dataclass
class LimitedServers:
    """Running web processes: their URLs, and raw API keys by name."""

    stoa: RunningServer
    urls: list[str]
    keys: dict[str, str]

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[key]}"}

    def get(self, path: str, key: str, index: int = 0) -> httpx2.Response:
        return httpx2.get(self.urls[index] + path, headers=self.headers(key), timeout=30)

    def post(self, path: str, key: str, body: object, index: int = 0) -> httpx2.Response:
        return httpx2.post(self.urls[index] + path, json=body, headers=self.headers(key), timeout=60)

    def client(self, key: str, index: int = 0) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=200)
        return httpx2.AsyncClient(base_url=self.urls[index], headers=self.headers(key), timeout=60, limits=limits)


def make_keys(environment: dict[str, str], specs: dict[str, dict[str, object]]) -> dict[str, str]:
    """Create keys and return their raw values by name. Each has a user of its own unless its spec names one."""
    command = [sys.executable, "-c", _MAKE_KEYS, json.dumps(specs)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    keys: dict[str, str] = json.loads(done.stdout)
    return keys


@pytest.fixture(scope="session")
def limited() -> Iterator[LimitedServers]:
    """Three web processes with low limits."""
    with ExitStack() as stack:
        stoa = stack.enter_context(running_server_with_fake_models(extra={"DJANGO_SETTINGS_MODULE": SETTINGS_MODULE}))
        urls = [stoa.url]
        for number in range(2):
            process, url = start_server(stoa.environment, stoa.log.with_name(f"server-{number}.log"))
            stack.callback(process.wait, 45)
            stack.callback(process.terminate)
            urls.append(url)
        yield LimitedServers(stoa, urls, make_keys(stoa.environment, KEYS))
