"""Spacing of the requests of a client that goes on after 429, and of those without a limit, as probes.

Most clients wait as Retry-After says. From one that does not, each refused request costs the server as much as it takes
to see that the limit is reached: with many connections, all of a processor.
"""

import asyncio
import time
from collections import OrderedDict

from shared.api.limits.rate_limits import address_key
from shared.serving.asgi.request_checks import get_header
from shared.serving.asgi.types import Scope

BURST = 500  # such requests of a client in a row before its next one waits
PER_SECOND = 50.0  # of a client from then on
MAX_WAIT_SECONDS = 10.0
MAX_CLIENTS = 10_000


class RefusalPacer:
    """Debts of the clients of this process, by the generic cell rate algorithm. Not thread-safe.

    A client is an address with the credential that it sends: others behind the same address do not wait.
    """

    def __init__(self) -> None:
        self._due: OrderedDict[int, float] = OrderedDict()  # when the last refusal would be due at PER_SECOND

    def count(self, client: int) -> None:
        """Count a refusal, or a request without a limit."""
        now = time.monotonic()
        due = max(self._due.pop(client, now), now) + 1 / PER_SECOND
        self._due[client] = min(due, now + BURST / PER_SECOND + MAX_WAIT_SECONDS)
        if len(self._due) > MAX_CLIENTS:
            self._due.popitem(last=False)

    async def hold(self, client: int) -> float:
        """Wait while the client is in debt; return the seconds. It is called before anything else is held."""
        wait = self._due.get(client, 0.0) - time.monotonic() - BURST / PER_SECOND
        if wait <= 0:
            return 0.0
        began = time.monotonic()
        await asyncio.sleep(wait)
        return time.monotonic() - began


def client_of(scope: Scope) -> int:
    """Return a number for a request's address and credential, in whatever spelling it was sent."""
    address = scope["client"][0] if scope.get("client") else ""
    names = (b"authorization", b"x-api-key")
    sent = next(filter(None, (get_header(scope["headers"], name).split() for name in names)), [b""])
    return hash((address_key(address), sent[-1]))


pacer = RefusalPacer()
