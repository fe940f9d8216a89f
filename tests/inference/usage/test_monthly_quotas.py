"""Monthly quotas: reservations and the ledger together never exceed a quota, in Redis and in one process."""

import asyncio
import secrets
import time
from datetime import UTC, date, datetime
from typing import Any

import httpx2
import pytest
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch
from inference.batches.services import NewRequest, create_batch
from inference.engine import Usage
from inference.usage.ledger import LedgerBuffer, LedgerKey
from inference.usage.metering import UsageMeter
from inference.usage.quotas import MonthlyQuota, quotas_for
from inference.usage.reservations import MonthlyQuotaExceeded
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user, set_key_limits, set_monthly_token_limit
from shared.api.errors import ApiError
from shared.serving.db_threads import run_in_db_thread
from tests.inference.usage.conftest import LimitedServers, make_keys

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_a_quota_resets_at_the_start_of_the_next_month_in_utc():
    assert MonthlyQuota("user", 1, 1, date(2026, 12, 1)).resets_at == datetime(2027, 1, 1, tzinfo=UTC)
    assert MonthlyQuota("user", 1, 1, date(2028, 2, 1)).resets_at == datetime(2028, 3, 1, tzinfo=UTC)


@pytest.fixture
def user(db: None) -> User:
    return create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now())


@pytest.fixture
def key(user: User) -> ApiKey:
    return create_api_key(user=user, name="k", now=timezone.now())[0]


def limit(key: ApiKey, tokens: int | None) -> None:
    set_key_limits(api_key=key, requests=None, tokens=None, concurrency=None, monthly_tokens=tokens)


def test_users_and_keys_without_a_monthly_limit_have_no_quota(user: User, key: ApiKey):
    assert quotas_for(user, key, now=NOW) == ()


def test_quotas_use_the_limits_of_the_key_and_user_or_the_settings(user: User, key: ApiKey, settings: Settings):
    settings.KEY_MONTHLY_TOKEN_LIMIT, settings.USER_MONTHLY_TOKEN_LIMIT = 1000, 5000
    starts_on = date(2026, 11, 1)
    of_key, of_user = MonthlyQuota("key", key.pk, 1000, starts_on), MonthlyQuota("user", user.pk, 5000, starts_on)
    assert quotas_for(user, key, now=NOW) == (of_key, of_user)
    assert quotas_for(user, None, now=NOW) == (of_user,)

    limit(key, 0)
    set_monthly_token_limit(user=user, tokens=9)
    assert [quota.max_tokens for quota in quotas_for(user, key, now=NOW)] == [0, 9]


def test_used_tokens_are_those_of_the_ledger_for_this_month(user: User, key: ApiKey):
    for day, key_id, tokens in ((31, None, 1000), (1, None, 5), (21, key.pk, 30), (30, key.pk, 200)):
        at = datetime(2026, 10 if day == 31 else 11, day, 23, tzinfo=UTC)
        record_usage(user_id=user.pk, api_key_id=key_id, model_id="m", usage=Usage(tokens, 1), now=at)
    starts_on = date(2026, 11, 1)
    assert MonthlyQuota("user", user.pk, 1, starts_on).read_used_tokens() == 235 + 3
    assert MonthlyQuota("key", key.pk, 1, starts_on).read_used_tokens() == 230 + 2


@pytest.fixture
def meter() -> UsageMeter:
    return UsageMeter(LedgerBuffer())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("store", ["redis", "local"])
async def test_requests_are_admitted_up_to_the_last_token_of_the_quota(
    meter: UsageMeter, settings: Settings, store: str
):
    if store == "local":
        settings.REDIS_URL = ""
    now = timezone.now()
    owner = await run_in_db_thread(_make_user)
    quotas = (MonthlyQuota("user", owner, 100, now.date().replace(day=1)),)
    ledger_key = LedgerKey.at(now, user_id=owner, api_key_id=None, model_id="m")

    for _ in range(5):  # each reserves 40 tokens and uses 15
        with await meter.admit(scopes=(), quotas=quotas, tokens=40, ledger_key=ledger_key) as admission:
            admission.finish(Usage(10, 5))
    with pytest.raises(MonthlyQuotaExceeded) as caught:
        await meter.admit(scopes=(), quotas=quotas, tokens=40, ledger_key=ledger_key)
    assert caught.value.used == await run_in_db_thread(quotas[0].read_used_tokens) == 75
    with await meter.admit(scopes=(), quotas=quotas, tokens=25, ledger_key=ledger_key) as admission:
        admission.finish(Usage(20, 5))
    with pytest.raises(MonthlyQuotaExceeded):
        await meter.admit(scopes=(), quotas=quotas, tokens=1, ledger_key=ledger_key)


@pytest.mark.django_db(transaction=True)
async def test_concurrent_requests_of_two_processes_never_exceed_the_quota_while_they_are_written(meter: UsageMeter):
    now, meters = timezone.now(), (meter, UsageMeter(LedgerBuffer()))
    owner = await run_in_db_thread(_make_user)
    quotas = (MonthlyQuota("user", owner, 100, now.date().replace(day=1)),)
    ledger_key = LedgerKey.at(now, user_id=owner, api_key_id=None, model_id="m")

    async def use(number: int) -> bool:
        one = meters[number % 2]
        try:
            with await one.admit(scopes=(), quotas=quotas, tokens=5, ledger_key=ledger_key) as admission:
                admission.finish(Usage(3, 1))
        except MonthlyQuotaExceeded:
            return False
        await run_in_db_thread(one.write)
        return True

    used = await asyncio.gather(*(use(number) for number in range(60)))
    for one in meters:
        await run_in_db_thread(one.write)
    while await use(0):
        used.append(True)
    assert await run_in_db_thread(quotas[0].read_used_tokens) == sum(used) * 4
    assert 95 < sum(used) * 4 <= 100


@pytest.mark.django_db(transaction=True)
async def test_an_admission_without_usage_releases_its_quota_reservation(meter: UsageMeter):
    now = timezone.now()
    owner = await run_in_db_thread(_make_user)
    quotas = (MonthlyQuota("user", owner, 100, now.date().replace(day=1)),)
    ledger_key = LedgerKey.at(now, user_id=owner, api_key_id=None, model_id="m")
    with await meter.admit(scopes=(), quotas=quotas, tokens=100, ledger_key=ledger_key):
        pass
    with await meter.admit(scopes=(), quotas=quotas, tokens=100, ledger_key=ledger_key) as admission:
        with pytest.raises(MonthlyQuotaExceeded):
            await meter.admit(scopes=(), quotas=quotas, tokens=1, ledger_key=ledger_key)
        admission.finish(Usage(1, 1))


@pytest.mark.django_db
def test_a_batch_is_refused_when_the_monthly_quota_is_used_up(user: User):
    set_monthly_token_limit(user=user, tokens=10)
    record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(6, 4), now=timezone.now())
    with pytest.raises(ApiError) as caught:
        create_batch(
            user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=[NewRequest("a", "{}")], now=timezone.now()
        )
    problem = caught.value.problem
    assert problem.status == 429
    assert "Your user has used its quota of 10 tokens per month" in problem.message
    assert 0 < int(problem.headers["Retry-After"]) <= 31 * 24 * 3600
    assert problem.headers["X-Should-Retry"] == "false"
    assert not Batch.objects.exists()


def _make_user() -> int:
    return create_user(
        email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now()
    ).pk  # fmt: skip


COMPLETION = {"model": "talker", "prompt": [1, 2, 3], "max_tokens": 2}  # token ids, so that the reservation is exact


async def test_three_servers_use_a_monthly_quota_until_no_request_fits(limited: LimitedServers):
    name = f"month-{secrets.token_hex(4)}"
    limited.keys |= make_keys(limited.stoa.environment, {name: {"month": 200}})

    async def ask(place: int) -> list[int]:
        async with limited.client(name, place) as client:
            answers = await asyncio.gather(*(client.post("/v1/completions", json=COMPLETION) for _ in range(15)))
        return [answer.status_code for answer in answers]

    statuses = [status for place in await asyncio.gather(*map(ask, range(3))) for status in place]
    assert set(statuses) == {200, 429}
    usage, answer = await use_up(limited, name)
    used = usage["total"]["total_tokens"]
    assert 195 < used <= 200  # a further request reserves 5
    month = usage["limits"][1]["tokens_per_month"]
    assert (month["limit"], month["used"], month["remaining"]) == (200, used, 200 - used)
    assert date.fromisoformat(month["resets_on"]).day == 1
    assert usage["limits"][0]["tokens_per_month"] is None
    assert "200 tokens per month" in answer.json()["error"]["message"]
    assert 0 < int(answer.headers["Retry-After"]) <= 31 * 24 * 3600
    assert answer.headers["X-RateLimit-Limit"] == "200"
    assert answer.headers["X-Should-Retry"] == "false"


async def use_up(limited: LimitedServers, key: str) -> tuple[dict[str, Any], httpx2.Response]:
    """Ask until no request fits beside the ledger's tokens. Return the usage and the last response.

    A request that fits may be refused while another server gives back the slots of ended requests or moves their tokens
    into the ledger, where they count twice for a moment.
    """
    deadline = time.monotonic() + 30
    while True:
        answer = limited.post("/v1/completions", key, COMPLETION)
        if answer.status_code == 200:
            deadline = time.monotonic() + 30
            continue
        usage: dict[str, Any] = limited.get("/usage", key).json()
        if usage["total"]["total_tokens"] > 195 or time.monotonic() > deadline:
            return usage, answer
        await asyncio.sleep(0.2)
