"""Admission of requests within their limits, and the recording and reading of usage."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from math import ceil

from django.utils import timezone

from inference.engine import Usage
from inference.protocol.native import usage as wire
from inference.usage import ledger
from inference.usage.metering import Admission, usage_meter
from inference.usage.models import DailyUsage
from inference.usage.quotas import (
    NO_RETRY_HEADERS,
    owner_name,
    quotas_for,
    seconds_until_reset,
    used_up_message,
)
from inference.usage.reports import build_report
from inference.usage.request_limits import peek_scopes
from inference.usage.reservations import BudgetExceeded, MonthlyQuotaExceeded
from inference.usage.scopes import LimitScope, limit_scopes, principal_limit_scopes
from shared.accounts.authentication import Principal
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Permission
from shared.api.errors import ApiError
from shared.api.limits.rate_limits import REFUSALS, RateLimitDecision, rate_limit_headers
from shared.serving.db_threads import run_in_db_thread

DEFAULT_REPORT_DAYS = 30
MAX_REPORT_DAYS = 366


async def admit(*, caller: Principal, model_id: str, tokens: int, records_usage: bool = True) -> Admission:
    """Admit a request that may use this many tokens, and reserve them until it ends. Use the result in a `with` block.

    records_usage: whether the ledger gets the usage; otherwise the caller calls `record_usage` in its transaction.
    A request of 0 tokens counts against the concurrency limit alone. Raise ApiError 429 if the key or its user has
    reached its tokens per minute, its monthly quota or its concurrent requests.
    """
    now = timezone.now()
    key_id = caller.api_key.pk if caller.api_key else None
    key = ledger.LedgerKey.at(now, user_id=caller.user.pk, api_key_id=key_id, model_id=model_id)
    ledger_key = key if records_usage else None
    scopes = principal_limit_scopes(caller)
    quotas = quotas_for(caller.user, caller.api_key, now=now) if tokens else ()
    try:
        return await usage_meter.admit(scopes=scopes, quotas=quotas, tokens=tokens, ledger_key=ledger_key)
    except BudgetExceeded as exceeded:
        raise _budget_error(exceeded, tokens) from None
    except MonthlyQuotaExceeded as exceeded:
        raise _quota_error(exceeded, tokens, now) from None


def record_usage(
    *, user_id: int, api_key_id: int | None, model_id: str, usage: Usage, requests: int = 1, now: datetime
) -> None:
    """Add usage to the ledger at once, in the caller's transaction if there is one. For requests without admission."""
    key = ledger.LedgerKey.at(now, user_id=user_id, api_key_id=api_key_id, model_id=model_id)
    ledger.add_to_ledger({key: ledger.LedgerAmount(requests, usage)})


async def read_usage(
    *, caller: Principal, first: date | None, last: date | None, group_by: wire.UsageGroupBy, user_id: int | None
) -> wire.UsageResponse:
    """Return usage and remaining limits of the caller, or of `user_id` if the caller may manage models.

    The default period is the last 30 days. Raise ApiError 400 for a wrong period or user, and 403 for another's usage.
    """
    first, last = _period(first, last, timezone.now().date())
    rows, total, months = await run_in_db_thread(_read_ledger, caller, user_id, first, last, group_by)
    is_own = user_id is None or user_id == caller.user.pk
    scopes = principal_limit_scopes(caller) if is_own else limit_scopes(user_id or 0, None)
    limits = await _remaining_limits(scopes, months)
    return wire.UsageResponse(first=first, last=last, group_by=group_by, data=rows, total=total, limits=limits)


def _read_ledger(
    caller: Principal, user_id: int | None, first: date, last: date, group_by: wire.UsageGroupBy
) -> tuple[list[wire.UsageRow], wire.UsageTotals, Mapping[str, wire.MonthlyLimit]]:
    usage_meter.write()  # so that the answer includes what this process has buffered
    rows, user, key = DailyUsage.objects.for_principal(caller), caller.user, caller.api_key
    if user_id is not None and user_id != caller.user.pk:
        if not caller.has_permission(Permission.MANAGE_MODELS):
            raise ApiError(403, f"Reading another user's usage needs the permission {Permission.MANAGE_MODELS}.")
        found = User.objects.filter(pk=user_id).first()
        if found is None:
            raise ApiError(
                400, f"`user` must be the id of a user: there is no user {user_id}.", details={"field": "user"}
            )
        rows, user, key = DailyUsage.objects.filter(user=user_id), found, None
    return *build_report(rows.between(first, last), group_by), _remaining_quotas(user, key)


def _remaining_quotas(user: User, api_key: ApiKey | None) -> Mapping[str, wire.MonthlyLimit]:
    """Return what is left of the key's and the user's monthly quotas, by `key` and `user`."""
    remaining: dict[str, wire.MonthlyLimit] = {}
    for quota in quotas_for(user, api_key, now=timezone.now()):
        used = quota.read_used_tokens()
        left = max(0, quota.max_tokens - used)
        remaining[quota.kind] = wire.MonthlyLimit(quota.max_tokens, used, left, quota.resets_at.date())
    return remaining


def _period(first: date | None, last: date | None, today: date) -> tuple[date, date]:
    last = last or today
    first = first or date.fromordinal(max(1, last.toordinal() - DEFAULT_REPORT_DAYS + 1))
    if first > last:
        raise ApiError(400, f"`from` must not be after `to`: {first} is after {last}.", details={"field": "from"})
    if (last - first).days >= MAX_REPORT_DAYS:
        days = (last - first).days + 1
        message = f"The period from `from` to `to` must be at most {MAX_REPORT_DAYS} days, not {days}."
        raise ApiError(400, message, details={"field": "from"})
    return first, last


async def _remaining_limits(
    scopes: Sequence[LimitScope], months: Mapping[str, wire.MonthlyLimit]
) -> list[wire.ScopeLimits]:
    decisions = await peek_scopes(scopes)
    states = await usage_meter.state(scopes)
    return [
        wire.ScopeLimits(
            scope=scope.kind,
            requests_per_minute=wire.MinuteLimit(scope.requests_per_minute, decision.remaining, decision.reset_after),
            tokens_per_minute=wire.MinuteLimit(
                scope.tokens_per_minute,
                max(0, scope.tokens_per_minute - state.tokens),
                ceil(state.reset_seconds),
            ),
            concurrent_requests=wire.ConcurrencyLimit(
                scope.max_concurrency, max(0, scope.max_concurrency - state.running)
            ),
            tokens_per_month=months.get(scope.kind),
        )
        for scope, decision, state in zip(scopes, decisions, states, strict=True)
    ]


def _budget_error(exceeded: BudgetExceeded, tokens: int) -> ApiError:
    scope, retry_after = exceeded.scope, exceeded.retry_after
    REFUSALS.add(1, "tokens" if exceeded.is_token_limit else "at once")
    if exceeded.is_token_limit:
        limit = scope.tokens_per_minute
        message = (
            f"{owner_name(scope.kind)} has reached its limit of {limit} tokens per minute: {exceeded.used} used, "
            f"{tokens} requested. Try again in {retry_after} seconds, or request fewer tokens."
        )
    else:
        limit = scope.max_concurrency
        message = (
            f"{owner_name(scope.kind)} has reached its limit of {limit} concurrent requests. "
            "Try again when one of them has ended."
        )
    decision = RateLimitDecision(
        allowed=False,
        limit=limit,
        remaining=max(0, limit - exceeded.used),
        reset_at=ceil(timezone.now().timestamp()) + retry_after,
        reset_after=retry_after,
    )
    return ApiError(429, message, headers=rate_limit_headers(decision))


def _quota_error(exceeded: MonthlyQuotaExceeded, tokens: int, now: datetime) -> ApiError:
    quota, remaining = exceeded.quota, max(0, exceeded.quota.max_tokens - exceeded.used)
    REFUSALS.add(1, "tokens of a month")
    message = used_up_message(quota)
    if remaining:
        message = (
            f"{owner_name(quota.kind)} has {remaining} of its {quota.max_tokens} tokens per month left: {tokens} "
            f"requested. Request fewer tokens, or wait for the reset on {quota.resets_at:%Y-%m-%d} (UTC)."
        )
    decision = RateLimitDecision(
        allowed=False,
        limit=quota.max_tokens,
        remaining=remaining,
        reset_at=ceil(quota.resets_at.timestamp()),
        reset_after=seconds_until_reset(quota, now),
    )
    return ApiError(429, message, headers=rate_limit_headers(decision) | NO_RETRY_HEADERS)
