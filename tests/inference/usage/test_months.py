"""Tokens a month: what is held and what the ledger has are together never more than the quota, in Redis and here."""

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch
from inference.batches.services import NewRequest, create_batch
from inference.engine import Usage
from inference.usage.holds import Full, Holds, Known, LocalHolds, RedisHolds, Stale
from inference.usage.ledger import Buffer
from inference.usage.metering import Bookkeeper, line_of
from inference.usage.months import MonthFull
from inference.usage.quotas import Quota, quotas_of
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user, set_key_limits, set_monthly_limit
from shared.api.errors import ApiError
from tests.inference.usage.conftest import Limited

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUOTA = Quota("user", 7, 100, date(2026, 11, 1))
OTHER = Quota("key", 8, 50, date(2026, 11, 1))


@pytest.fixture(params=["redis", "local"])
def make_holds(request: pytest.FixtureRequest) -> Callable[[float], Holds]:
    if request.param == "local":
        return lambda lease_s: LocalHolds(lease_s=lease_s)
    return lambda lease_s: RedisHolds(os.environ["REDIS_URL"], lease_s=lease_s)


def knowing(holds: Holds, *used: int, quotas: tuple[Quota, ...] = (QUOTA,)) -> list[Known]:
    """What the ledger has, in the epochs that are now."""
    stale = holds.hold("nobody", quotas, [Known("", 0)] * len(quotas), 1)
    assert isinstance(stale, Stale)
    return [Known(epoch, tokens) for epoch, tokens in zip(stale.epochs, used, strict=True)]


def test_what_is_held_and_what_the_ledger_has_are_counted_together(make_holds: Callable[[float], Holds]):
    holds = make_holds(30)
    known = knowing(holds, 60)
    assert holds.hold("a", [QUOTA], known, 30) is None
    assert holds.hold("b", [QUOTA], known, 11) == Full(QUOTA, 90)
    assert holds.hold("b", [QUOTA], known, 10) is None
    assert holds.hold("c", [QUOTA], known, 1) == Full(QUOTA, 100)


def test_what_was_read_before_something_went_into_the_ledger_is_not_believed(make_holds: Callable[[float], Holds]):
    holds = make_holds(30)
    known = knowing(holds, 0)
    assert holds.hold("a", [QUOTA], known, 90) is None
    holds.release("a", [QUOTA])  # its 90 are in the ledger now

    assert isinstance(holds.hold("b", [QUOTA], known, 50), Stale)
    assert holds.hold("b", [QUOTA], knowing(holds, 90), 50) == Full(QUOTA, 90)


def test_of_two_quotas_both_or_none_hold(make_holds: Callable[[float], Holds]):
    holds, quotas = make_holds(30), (QUOTA, OTHER)
    assert holds.hold("a", quotas, knowing(holds, 0, 45, quotas=quotas), 10) == Full(OTHER, 45)
    assert holds.hold("b", quotas, knowing(holds, 0, 40, quotas=quotas), 10) is None
    assert holds.hold("c", [QUOTA], knowing(holds, 0), 91) == Full(QUOTA, 10)


def test_what_a_dead_process_held_comes_back_and_what_is_renewed_stays(make_holds: Callable[[float], Holds]):
    holds = make_holds(3)
    known = knowing(holds, 0)
    assert holds.hold("dead", [QUOTA], known, 60) is None
    assert holds.hold("alive", [QUOTA], known, 40) is None
    deadline = time.monotonic() + 60
    while holds.hold("next", [QUOTA], knowing(holds, 0), 60) is not None:
        holds.renew("alive", [QUOTA])
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert holds.hold("more", [QUOTA], knowing(holds, 0), 1) == Full(QUOTA, 100)


def test_of_many_at_once_as_many_are_let_in_as_there_is_room_for(make_holds: Callable[[float], Holds]):
    holds = make_holds(30)
    known = knowing(holds, 3)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda number: holds.hold(str(number), [QUOTA], known, 10), range(100)))
    assert answers.count(None) == 9
    assert {answer for answer in answers if answer} == {Full(QUOTA, 93)}


def test_a_month_is_one_of_utc_and_ends_where_the_next_begins():
    assert Quota("user", 1, 1, date(2026, 12, 1)).ends_at == datetime(2027, 1, 1, tzinfo=UTC)
    assert Quota("user", 1, 1, date(2028, 2, 1)).ends_at == datetime(2028, 3, 1, tzinfo=UTC)


@pytest.fixture
def user(db: None) -> User:
    return create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now())


@pytest.fixture
def key(user: User) -> ApiKey:
    return create_api_key(user=user, name="k", now=timezone.now())[0]


def limit(key: ApiKey, tokens: int | None) -> None:
    set_key_limits(api_key=key, requests=None, tokens=None, concurrency=None, tokens_a_month=tokens)


def test_who_has_no_limit_a_month_has_no_quota(user: User, key: ApiKey):
    assert quotas_of(user, key, now=NOW) == ()


def test_a_key_and_its_user_have_quotas_of_their_own_or_the_settings(user: User, key: ApiKey, settings: Settings):
    settings.KEY_MONTHLY_TOKEN_LIMIT, settings.USER_MONTHLY_TOKEN_LIMIT = 1000, 5000
    begins = date(2026, 11, 1)
    of_key, of_user = Quota("key", key.pk, 1000, begins), Quota("user", user.pk, 5000, begins)
    assert quotas_of(user, key, now=NOW) == (of_key, of_user)
    assert quotas_of(user, None, now=NOW) == (of_user,)

    limit(key, 0)
    set_monthly_limit(user=user, tokens=9)
    assert [quota.tokens for quota in quotas_of(user, key, now=NOW)] == [0, 9]


def test_what_was_used_is_the_ledgers_of_this_month(user: User, key: ApiKey):
    for day, key_id, tokens in ((31, None, 1000), (1, None, 5), (21, key.pk, 30), (30, key.pk, 200)):
        at = datetime(2026, 10 if day == 31 else 11, day, 23, tzinfo=UTC)
        record_usage(user_id=user.pk, api_key_id=key_id, model_id="m", usage=Usage(tokens, 1), now=at)
    begins = date(2026, 11, 1)
    assert Quota("user", user.pk, 1, begins).used() == 235 + 3
    assert Quota("key", key.pk, 1, begins).used() == 230 + 2


@pytest.fixture
def book() -> Bookkeeper:
    return Bookkeeper(Buffer())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("store", ["redis", "local"])
async def test_requests_are_let_in_until_the_month_is_used_up_to_the_last_token(
    book: Bookkeeper, settings: Settings, store: str
):
    if store == "local":
        settings.REDIS_URL = ""
    now = timezone.now()
    owner = await _in_thread(_make_user)
    quotas = (Quota("user", owner, 100, now.date().replace(day=1)),)
    line = line_of(user_id=owner, api_key_id=None, model_id="m", now=now)

    for _ in range(5):  # each may take 40, and takes 15
        with await book.admit(scopes=(), quotas=quotas, tokens=40, line=line) as admission:
            admission.use(Usage(10, 5))
    with pytest.raises(MonthFull) as caught:
        await book.admit(scopes=(), quotas=quotas, tokens=40, line=line)
    assert caught.value.taken == await _in_thread(quotas[0].used) == 75
    with await book.admit(scopes=(), quotas=quotas, tokens=25, line=line) as admission:
        admission.use(Usage(20, 5))
    with pytest.raises(MonthFull):
        await book.admit(scopes=(), quotas=quotas, tokens=1, line=line)


@pytest.mark.django_db(transaction=True)
async def test_who_leaves_before_anything_ran_gives_back_what_was_held(book: Bookkeeper):
    now = timezone.now()
    owner = await _in_thread(_make_user)
    quotas = (Quota("user", owner, 100, now.date().replace(day=1)),)
    line = line_of(user_id=owner, api_key_id=None, model_id="m", now=now)
    with await book.admit(scopes=(), quotas=quotas, tokens=100, line=line):
        pass
    with await book.admit(scopes=(), quotas=quotas, tokens=100, line=line) as admission:
        with pytest.raises(MonthFull):
            await book.admit(scopes=(), quotas=quotas, tokens=1, line=line)
        admission.use(Usage(1, 1))


@pytest.mark.django_db
def test_a_batch_is_refused_when_the_month_is_used_up(user: User):
    set_monthly_limit(user=user, tokens=10)
    record_usage(user_id=user.pk, api_key_id=None, model_id="m", usage=Usage(6, 4), now=timezone.now())
    with pytest.raises(ApiError) as caught:
        create_batch(
            user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=[NewRequest("a", "{}")], now=timezone.now()
        )
    problem = caught.value.problem
    assert problem.status == 429
    assert "The 10 tokens a month of your user are used up" in problem.message
    assert 0 < int(problem.headers["Retry-After"]) <= 31 * 24 * 3600
    assert problem.headers["X-Should-Retry"] == "false"
    assert not Batch.objects.exists()


def _make_user() -> int:
    return create_user(
        email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now()
    ).pk  # fmt: skip


async def _in_thread(work: Callable[[], Any]) -> Any:
    """In a thread that leaves no connection behind."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(run)


COMPLETION = {"model": "talker", "prompt": [1, 2, 3], "max_tokens": 2}  # token ids: what is reserved is exact


async def test_over_three_servers_a_month_is_used_up_to_what_no_request_fits_into(limited: Limited):
    async def ask(place: int) -> list[int]:
        async with limited.client("month", place) as client:
            answers = await asyncio.gather(*(client.post("/v1/completions", json=COMPLETION) for _ in range(15)))
        return [answer.status_code for answer in answers]

    statuses = [status for place in await asyncio.gather(*map(ask, range(3))) for status in place]
    assert set(statuses) == {200, 429}
    while (answer := limited.post("/v1/completions", "month", COMPLETION)).status_code == 200:
        pass

    usage = await _eventually_written(limited)
    used = usage["total"]["total_tokens"]
    assert 195 < used <= 200  # one more may take 5
    month = usage["limits"][1]["tokens_per_month"]
    assert (month["limit"], month["used"], month["remaining"]) == (200, used, 200 - used)
    assert date.fromisoformat(month["resets_on"]).day == 1
    assert usage["limits"][0]["tokens_per_month"] is None
    assert "200 tokens a month" in answer.json()["error"]["message"]
    assert 0 < int(answer.headers["Retry-After"]) <= 31 * 24 * 3600
    assert answer.headers["X-RateLimit-Limit"] == "200"
    assert answer.headers["X-Should-Retry"] == "false"


async def _eventually_written(limited: Limited) -> dict[str, Any]:
    """What all three have told the ledger."""
    deadline = time.monotonic() + 30
    while True:
        told: dict[str, Any] = limited.get("/usage", "month").json()
        if told["total"]["total_tokens"] > 195 or time.monotonic() > deadline:
            return told
        await asyncio.sleep(0.2)
