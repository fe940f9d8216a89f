"""Letting requests in within the limits, and what they have used."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from math import ceil

from django.utils import timezone

from inference.engine import EmbeddingRequest, GenerationRequest, Message, Tool, Usage
from inference.protocol import usage as wire
from inference.registry.wanted import off_the_loop
from inference.usage import ledger, limits
from inference.usage.budgets import Refusal, retry_after
from inference.usage.metering import Admission, Refused, bookkeeper, line_of
from inference.usage.models import DailyUsage
from inference.usage.months import MonthFull
from inference.usage.quotas import NOT_AGAIN, quotas_of, seconds_left, used_up
from inference.usage.reports import report
from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Permission
from shared.api.errors import ApiError
from shared.api.rate_limits import REFUSALS, Decision, rate_limit_headers

# Before a text is read by its model. English has four bytes a token and more, most other languages less.
BYTES_A_TOKEN = 4
MESSAGE_TOKENS = 8  # of a chat template around one message
# What a request reserves for each text where it says no max_tokens: it may take all of the context, and seldom does.
ASSUMED_TOKENS = 1024

DAYS, MOST_DAYS = 30, 366  # of GET /usage


async def admit(*, caller: Principal, model_id: str, tokens: int) -> Admission:
    """Lets a request in that may take so many tokens, and reserves them; one that takes none has a place alone. Use it
    `with`: see `Admission`.

    Raises ApiError 429: too many tokens this minute or this month, or too many requests at once, of the key or of its
    user.
    """
    key_id, now = caller.api_key.pk if caller.api_key else None, timezone.now()
    line = line_of(user_id=caller.user.pk, api_key_id=key_id, model_id=model_id, now=now)
    scopes = limits.scopes_of_principal(caller)
    quotas = quotas_of(caller.user, caller.api_key, now=now) if tokens else ()
    try:
        return await bookkeeper.admit(scopes=scopes, quotas=quotas, tokens=tokens, line=line)
    except Refused as refused:
        raise _too_much(refused.refusal, refused.tokens) from None
    except MonthFull as full:
        raise _month_full(full, tokens, now) from None


def tokens_of(request: GenerationRequest) -> int:
    """How many tokens a generation may take, about: prompts are estimated, from all text that a template may put
    into one."""
    messages = request.messages or ()
    texts = [request.prompt or "", *chain(*map(_texts_of_message, messages), *map(_texts_of_tool, request.tools))]
    prompt = len(request.prompt_ids or ()) + sum(map(tokens_of_text, texts)) + MESSAGE_TOKENS * len(messages)
    most = ASSUMED_TOKENS if request.sampling.max_tokens is None else request.sampling.max_tokens
    return max(1, prompt + most * request.n)


def tokens_of_text(text: str) -> int:
    """How many tokens it has, about."""
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return ceil(size / BYTES_A_TOKEN)


def tokens_of_texts(request: EmbeddingRequest) -> int:
    """How many tokens texts to embed have, about."""
    return max(1, sum(tokens_of_text(text) if isinstance(text, str) else len(text) for text in request.texts))


def record_usage(
    *, user_id: int, api_key_id: int | None, model_id: str, usage: Usage, requests: int = 1, now: datetime
) -> None:
    """Adds to the ledger at once, in the caller's transaction if there is one: what was not let in by `admit`, as the
    requests of a batch."""
    line = line_of(user_id=user_id, api_key_id=api_key_id, model_id=model_id, now=now)
    ledger.write({line: ledger.Amount(requests, usage)})


async def read_usage(
    *, caller: Principal, first: date | None, last: date | None, group_by: wire.GroupBy, user_id: int | None
) -> wire.UsageAnswer:
    """What the caller has used and may use; of `user_id` for who manages models. The last 30 days unless it is said.

    Raises ApiError 400, 403.
    """
    first, last = _days(first, last, timezone.now().date())
    rows, total, months = await off_the_loop(_read, caller, user_id, first, last, group_by)
    is_own = user_id is None or user_id == caller.user.pk
    told = limits.scopes_of_principal(caller) if is_own else limits.scopes_of(user_id or 0, None)
    left = await _limits_left(told, months)
    return wire.UsageAnswer(first=first, last=last, group_by=group_by, data=rows, total=total, limits=left)


def _read(
    caller: Principal, user_id: int | None, first: date, last: date, group_by: wire.GroupBy
) -> tuple[list[wire.UsageRow], wire.UsageTotal, Mapping[str, wire.LeftOfMonth]]:
    bookkeeper.write()  # what this process knows is in the answer
    rows, user, key = DailyUsage.objects.for_principal(caller), caller.user, caller.api_key
    if user_id is not None and user_id != caller.user.pk:
        if not caller.may(Permission.MANAGE_MODELS):
            raise ApiError(403, f"The usage of others needs the permission {Permission.MANAGE_MODELS}.")
        found = User.objects.filter(pk=user_id).first()
        if found is None:
            raise ApiError(400, f"user is wrong: there is no user {user_id}.", details={"field": "user"})
        rows, user, key = DailyUsage.objects.filter(user=user_id), found, None
    return *report(rows.between(first, last), group_by), _months_left(user, key)


def _months_left(user: User, api_key: ApiKey | None) -> Mapping[str, wire.LeftOfMonth]:
    """By `key` and `user`: what is left of their months, where they have quotas."""
    now = timezone.now()
    told: dict[str, wire.LeftOfMonth] = {}
    for quota in quotas_of(user, api_key, now=now):
        used = quota.used()
        left = max(0, quota.tokens - used)
        told[quota.kind] = wire.LeftOfMonth(quota.tokens, used, left, quota.ends_at.date())
    return told


def _days(first: date | None, last: date | None, today: date) -> tuple[date, date]:
    last = last or today
    first = first or date.fromordinal(max(1, last.toordinal() - DAYS + 1))
    if first > last:
        raise ApiError(400, "from is wrong: it is after to.", details={"field": "from"})
    if (last - first).days >= MOST_DAYS:
        raise ApiError(400, f"from is wrong: at most {MOST_DAYS} days are told at once.", details={"field": "from"})
    return first, last


async def _limits_left(
    scopes: Sequence[limits.Scope], months: Mapping[str, wire.LeftOfMonth]
) -> list[wire.ScopeLimits]:
    requests = await limits.requests_left(scopes)
    states = await bookkeeper.state(scopes)
    return [
        wire.ScopeLimits(
            scope=scope.kind,
            requests_per_minute=wire.Left(scope.requests, decision.remaining, decision.reset_after),
            tokens_per_minute=wire.Left(scope.tokens, max(0, scope.tokens - state.tokens), ceil(state.reset_s)),
            concurrent_requests=wire.Places(scope.concurrency, max(0, scope.concurrency - state.running)),
            tokens_per_month=months.get(scope.kind),
        )
        for scope, decision, state in zip(scopes, requests, states, strict=True)
    ]


def _month_full(full: MonthFull, tokens: int, now: datetime) -> ApiError:
    quota, left = full.quota, max(0, full.quota.tokens - full.taken)
    REFUSALS.add(1, "tokens of a month")
    message = used_up(quota)
    if left:
        message = (
            f"{left} of the {quota.tokens} tokens a month are left, and this request may take {tokens}: ask for fewer. "
            f"There are new ones on {quota.ends_at:%Y-%m-%d} (UTC)."
        )
    wait = seconds_left(quota, now)
    reset_at = ceil(quota.ends_at.timestamp())
    decision = Decision(allowed=False, limit=quota.tokens, remaining=left, reset_at=reset_at, reset_after=wait)
    return ApiError(429, message, headers=rate_limit_headers(decision) | NOT_AGAIN)


def _texts_of_message(message: Message) -> Iterator[str]:
    yield from (message.content, message.tool_call_id or "")
    for call in message.tool_calls:
        yield from (call.id, call.name, call.arguments)


def _texts_of_tool(tool: Tool) -> Iterator[str]:
    yield from (tool.name, tool.description, json.dumps(tool.parameters or {}, ensure_ascii=False))


def _too_much(refusal: Refusal, tokens: int) -> ApiError:
    scope, wait = refusal.scope, retry_after(refusal)
    REFUSALS.add(1, "tokens" if refusal.is_tokens else "at once")
    whose = "this key" if scope.kind == "key" else "your user"
    if refusal.is_tokens:
        limit = scope.tokens
        message = (
            f"At most {limit} tokens a minute are for {whose}: {refusal.used} count now, and this request may take "
            f"{tokens}. Try again in {wait} seconds, or ask for fewer tokens."
        )
    else:
        limit = scope.concurrency
        message = f"At most {limit} requests of {whose} run at once. Wait for one of them to end."
    now = ceil(timezone.now().timestamp())
    remaining = max(0, limit - refusal.used)
    decision = Decision(allowed=False, limit=limit, remaining=remaining, reset_at=now + wait, reset_after=wait)
    return ApiError(429, message, headers=rate_limit_headers(decision))
