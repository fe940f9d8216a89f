"""Spacing of the requests of a client that goes on after 429, and of those without a limit, as probes.

Most clients wait as Retry-After says. From one that does not, each refused request costs the server as much as it takes
to see that the limit is reached: with many connections, all of a processor.
"""

import asyncio
import time
from collections import OrderedDict

from shared.api.limits.rate_limits import address_key
from shared.serving.asgi.types import Scope

CLIENT_KEY = "stoa.client"  # in the scope of a request that is limited: the user of its credential, else the address
BURST = 500  # such requests of a client in a row before its next one waits
PER_SECOND = 50.0  # of a client from then on
MAX_WAIT_SECONDS = 10.0
MAX_CLIENTS = 10_000


class RefusalPacer:
    """Debts of the clients of this process, by the generic cell rate algorithm. Not thread-safe.

    A client is the user or address whose turn a request takes: users behind the same address do not wait.
    """

    def __init__(self) -> None:
        self._due: OrderedDict[str, float] = OrderedDict()  # when the last refusal would be due at PER_SECOND

    def count(self, client: str, *, weight: int = 1) -> None:
        """Count a refusal, or a request without a limit."""
        now = time.monotonic()
        due = max(self._due.pop(client, now), now) + weight / PER_SECOND
        self._due[client] = min(due, now + BURST / PER_SECOND + MAX_WAIT_SECONDS)
        if len(self._due) > MAX_CLIENTS:
            self._due.popitem(last=False)

    async def hold(self, client: str) -> float:
        """Wait while the client is in debt; return the seconds. Who waits holds no thread and no connection."""
        wait = self.wait_seconds(client)
        if wait <= 0:
            return 0.0
        began = time.monotonic()
        await asyncio.sleep(wait)
        return time.monotonic() - began

    def wait_seconds(self, client: str) -> float:
        """Return how long the client is in debt, or a negative number."""
        return self._due.get(client, 0.0) - time.monotonic() - BURST / PER_SECOND


def client_of(scope: Scope) -> str:
    """Return the key of the user or address that a request counts for."""
    return scope.get(CLIENT_KEY) or client_address_key(scope)


def client_address_key(scope: Scope) -> str:
    """Return the rate-limit key of the client address."""
    client = scope.get("client")
    return f"address:{address_key(client[0] if client else '')}"


pacer = RefusalPacer()
