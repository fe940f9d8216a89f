"""Several web processes over one database, one Redis and one model host, and keys of every kind."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx2
import pytest

from tests.inference.engine.processes import REPOSITORY
from tests.inference.served import (
    ServedStoa,
    served_fakes,
    start_server,
)

# Makes each key that it is told of, for the user of a role, or for one of their own by `user`.
_MAKE_KEYS = """
import json
import sys
import django
django.setup()
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key, create_user, set_key_limits, set_monthly_limit
now = timezone.now()
made = {}
for name, wanted in json.loads(sys.argv[1]).items():
    email = f"{wanted.get('user', name)}@users.example"
    user = User.objects.filter(email=email).first()
    user = user or create_user(email=email, name=name, password=None, role="STAFF", now=now)
    permissions = wanted.get("permissions")
    key, made[name] = create_api_key(user=user, name=name, permissions=permissions, now=now)
    if own := wanted.get("limits"):
        set_key_limits(api_key=key, requests=own[0], tokens=own[1], concurrency=own[2])
    if month := wanted.get("month"):
        set_monthly_limit(user=user, tokens=month)
print(json.dumps(made))
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
    "month": {"month": 200},
}


@dataclass
class Limited:
    """The addresses of the web processes, and keys by name."""

    stoa: ServedStoa
    urls: list[str]
    keys: dict[str, str]

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[key]}"}

    def get(self, path: str, key: str, place: int = 0) -> httpx2.Response:
        return httpx2.get(self.urls[place] + path, headers=self.headers(key), timeout=30)

    def post(self, path: str, key: str, body: object, place: int = 0) -> httpx2.Response:
        return httpx2.post(self.urls[place] + path, json=body, headers=self.headers(key), timeout=60)

    def client(self, key: str, place: int = 0) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=200)
        return httpx2.AsyncClient(base_url=self.urls[place], headers=self.headers(key), timeout=60, limits=limits)


def make_keys(environment: dict[str, str], wanted: dict[str, dict[str, object]]) -> dict[str, str]:
    """The raw keys, by name. Each is a user's of its own unless it says whose."""
    command = [sys.executable, "-c", _MAKE_KEYS, json.dumps(wanted)]
    made = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=100)
    assert made.returncode == 0, made.stderr
    keys: dict[str, str] = json.loads(made.stdout)
    return keys


@pytest.fixture(scope="session")
def limited() -> Iterator[Limited]:
    """Three web processes."""
    with ExitStack() as ending:
        stoa = ending.enter_context(served_fakes(extra={"DJANGO_SETTINGS_MODULE": "tests.inference.usage.limited"}))
        urls = [stoa.url]
        for number in range(2):
            process, url = start_server(stoa.environment, stoa.log.with_name(f"server-{number}.log"))
            ending.callback(process.wait, 45)
            ending.callback(process.terminate)
            urls.append(url)
        yield Limited(stoa, urls, make_keys(stoa.environment, KEYS))
