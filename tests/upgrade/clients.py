"""Clients of two versions behind a balancer: no response may be an error, whichever version answers."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import httpx2

from tests.network.clients import Operation, Operations
from tests.network.models import ModelOperations
from tests.network.shop import ShopOperations


class BalancedOperations(Operations):
    """Operations whose requests go to one of the servers in `urls`, which the upgrade changes meanwhile.

    errors: what clients saw that is no success. phase: what the upgrade is doing. counts, error_counts: by phase.
    """

    def __init__(self, url: str, *arguments: Any) -> None:
        super().__init__(url, *arguments)
        self.urls = {url: ""}
        self.phase = ""
        self.errors: list[str] = []
        self.counts: Counter[str] = Counter()
        self.error_counts: Counter[str] = Counter()

    async def attempt(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        self.url, version = random.choice(list(self.urls.items()))
        response = await super().attempt(method, path, **options)
        # A stream that fails midway has status 200 and ends with an error event.
        if response is not None and response.is_success and 'data: {"error"' not in response.text:
            self.counts[self.phase] += 1
        else:
            seen = f"{response.status_code} {response.text[:300]}" if response is not None else "no response"
            self.errors.append(f"{self.phase}: {method} {path} by {version}: {seen}")
            self.error_counts[self.phase] += 1
        return response


class BalancedShop(BalancedOperations, ShopOperations):
    """The operations of N14 on a shop, and sign-ins, reads and drafts.

    own_product: of the store owner. credentials: of the customer.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, dict[str, str]],
        products: list[int],
        own_product: int,
        credentials: dict[str, str],
    ) -> None:
        super().__init__(url, headers, products)
        self._own_product = own_product
        self._credentials = credentials

    def kinds(self) -> Mapping[str, tuple[Operation, int]]:
        more = {"sign-in": (self._sign_in, 2), "reads": (self._read, 4), "draft": (self._draft, 1)}
        return {**super().kinds(), **more}

    async def _sign_in(self, number: int, dice: random.Random) -> None:
        pair = (await self.ask(number, "POST", "/api/token", json=self._credentials)).json()
        pair = (await self.ask(number, "POST", "/api/token/refresh", json={"refresh": pair["refresh"]})).json()
        headers = {"Authorization": f"Bearer {pair['token']}"}
        await self.ask(number, "GET", "/api/me", headers=headers)
        await self.ask(number, "POST", "/api/logout", json={"refresh": pair["refresh"]}, headers=headers)

    async def _read(self, number: int, dice: random.Random) -> None:
        product = dice.choice(self._products)
        for path in ("/api/products?limit=15", f"/api/products/{product}", "/api/categories", "/api/types"):
            await self.ask(number, "GET", path)
        await self.ask(number, "GET", "/api/orders?limit=5", headers=self._as["CUSTOMER"])

    async def _draft(self, number: int, dice: random.Random) -> None:
        body = {"product_name": f"Lamp {number}", "product_id": self._own_product}
        await self.ask(number, "POST", "/api/generate-descriptions", json=body, headers=self._as["STORE_OWNER"])


class BalancedModels(BalancedOperations, ModelOperations):
    """Generations, streams and batches, which both versions have."""

    def kinds(self) -> Mapping[str, tuple[Operation, int]]:
        both = super().kinds()
        return {name: both[name] for name in ("generation", "stream", "batch")}
