"""Limits on tokens per minute and on concurrent requests.

Import `RedisTokenBudget`, which counts for all processes, or `LocalTokenBudget`, which counts in this process where
there is no Redis and while it is down.
"""

from inference.usage.token_budget.budget import (
    LEASE_SECONDS,
    BudgetRefusal,
    BudgetReservation,
    BudgetSettlement,
    BudgetState,
    TokenBudget,
)
from inference.usage.token_budget.local_budget import LocalTokenBudget, local_budget
from inference.usage.token_budget.redis_budget import RedisTokenBudget, redis_budget

__all__ = [
    "LEASE_SECONDS",
    "BudgetRefusal",
    "BudgetReservation",
    "BudgetSettlement",
    "BudgetState",
    "LocalTokenBudget",
    "RedisTokenBudget",
    "TokenBudget",
    "local_budget",
    "redis_budget",
]
