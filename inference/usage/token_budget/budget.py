"""The interface of token budgets, and the values that it takes and returns.

A budget is exact: a reservation counts in full until it is settled, and the settled tokens count until a minute after
the request arrived. A reservation is held by a lease that its process renews while the request runs. When a process
dies, its leases expire, and its reserved tokens count as used for the rest of their minute.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.usage.scopes import LimitScope

WINDOW_SECONDS = 60.0
LEASE_SECONDS = 30.0


@dataclass(frozen=True)
class BudgetState:
    """The tokens and running requests that count in a scope, and the seconds until the oldest tokens expire."""

    tokens: int
    running: int
    reset_seconds: float


@dataclass(frozen=True)
class BudgetRefusal:
    """The reason for refusing a reservation.

    is_token_limit: whether the token limit was reached; otherwise it was the concurrency limit. used: the tokens, or
    the running requests, that count in the scope. wait_seconds: until there is enough room, if no other request comes.
    """

    scope: LimitScope
    is_token_limit: bool
    used: int
    wait_seconds: float

    @property
    def retry_after(self) -> int:
        """Whole seconds to wait, at least 1."""
        return max(1, math.ceil(self.wait_seconds))


@dataclass(frozen=True)
class BudgetReservation:
    """A reservation's unique id, and the names of the scopes that it counts in."""

    id: str
    scope_names: tuple[str, ...]


@dataclass(frozen=True)
class BudgetSettlement:
    """A reservation whose request has ended, and the tokens that the request used."""

    reservation: BudgetReservation
    tokens: int


class TokenBudget(Protocol):
    """Token and concurrency counts of limit scopes."""

    def reserve(self, reservation_id: str, scopes: Sequence[LimitScope], tokens: int) -> BudgetRefusal | None:
        """Reserve tokens in all scopes and return None, or in none and return the reason.

        A request for more than a scope's whole limit is accepted while nothing else counts there.
        """

    def settle(self, settlements: Sequence[BudgetSettlement]) -> None:
        """Replace reserved tokens by used ones. Ignore reservations that were settled before or expired long ago."""

    def renew(self, reservations: Sequence[BudgetReservation]) -> None:
        """Extend the leases of running requests."""

    def state(self, scopes: Sequence[LimitScope]) -> list[BudgetState]: ...
