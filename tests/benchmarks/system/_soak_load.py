"""Load of a soak test on both projects: few clients, with pauses, that verify at the end what was accepted."""

import io
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
from PIL import Image

from tests.benchmarks.system._load import Action, LoadGenerator
from tests.benchmarks.system._model_server_load import MODEL, ModelServerLoad

ADMIN, OWNER, CUSTOMER = "admin@stoa.example", "owner@stoa.example", "customer@stoa.example"
REPORTER = "staff2@stoa.example"
PASSWORD = "look-around-freely"  # the demo's, which is printed at every start
PRODUCTS = "/api/products?limit=20&with=type;shop"
PLENTY = 10_000_000
ROWS = 20
BATCH_TIMEOUT_SECONDS, RECOVERY_TIMEOUT_SECONDS = 300.0, 60.0
BRIEF = {"model": MODEL, "prompt": "The lamp", "max_tokens": 2}


class ShopLoad(LoadGenerator):
    """Load on the shop. `keys` are the API keys of its demo users by email."""

    def __init__(self, address: str, name: str, keys: Mapping[str, str]) -> None:
        self._keys = keys
        self._numbers = itertools.count(1)
        self._product = 0
        self.orders: list[int] = []
        self.questions: list[int] = []
        self.pictures: list[int] = []
        super().__init__(address, name, keys[CUSTOMER])

    def actions(self) -> Mapping[str, tuple[Action, int, float]]:
        return {
            "shop: reading": (self._read, 2, 0.5),
            "shop: orders": (self._order, 1, 1.0),
            "shop: signing in": (self._sign_in, 1, 8.0),
            "shop: reports": (self._report, 1, 30.0),
            "shop: pictures": (self._upload, 1, 10.0),
            "shop: analytics": (self._read_analytics, 1, 5.0),
        }

    def raise_stock(self) -> None:
        """Give one product a stock that never sells out."""
        with self.client() as client:
            page = client.get("/api/products?limit=1", extensions=self.sni())
            self._product = page.json()["data"][0]["id"]
            path = f"/api/products/{self._product}"
            answer = client.put(path, json={"quantity": PLENTY}, headers=self._as(ADMIN), extensions=self.sni())
            assert answer.status_code == 200, answer.text

    def lost(self) -> Iterator[str]:
        """Yield each accepted object that is missing."""
        kinds = {"orders": self.orders, "questions": self.questions, "attachments": self.pictures}
        with self.client() as client:
            for kind, accepted in kinds.items():
                for one in accepted:
                    if self._settled_status(client, f"/api/{kind}/{one}") != 200:
                        yield f"{kind} {one}"

    def _settled_status(self, client: httpx2.Client, path: str) -> int:
        """Return the status of a path, after the last fault is over."""
        deadline = time.monotonic() + RECOVERY_TIMEOUT_SECONDS
        while (status := client.get(path, extensions=self.sni()).status_code) == 503 and time.monotonic() < deadline:
            time.sleep(1)
        return status

    def _as(self, email: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._keys[email]}"}

    async def _read(self, client: httpx2.AsyncClient) -> str:
        paths = (PRODUCTS, "/api/shops", "/api/categories", "/api/reviews", f"/api/products/{self._product}")
        path = paths[next(self._numbers) % len(paths)]
        return str((await client.get(path, extensions=self.sni())).status_code)

    async def _order(self, client: httpx2.AsyncClient) -> str:
        body = {"products": [{"product_id": self._product, "order_quantity": 1}]}
        key = {"Idempotency-Key": f"order-{next(self._numbers)}"}
        answer = await client.post("/api/orders", json=body, headers=key, extensions=self.sni())
        if answer.status_code == 201:
            self.orders.append(answer.json()["id"])
        return str(answer.status_code)

    async def _sign_in(self, client: httpx2.AsyncClient) -> str:
        body = {"email": CUSTOMER, "password": PASSWORD}
        answer = await client.post("/api/token", json=body, extensions=self.sni())
        if answer.status_code != 200:
            return str(answer.status_code)
        headers = {"Authorization": f"Bearer {answer.json()['token']}"}
        seen = await client.get("/api/me", headers=headers, extensions=self.sni())
        if seen.status_code != 200:
            return str(seen.status_code)
        left = await client.post("/api/logout", json={}, headers=headers, extensions=self.sni())
        return str(left.status_code)

    async def _report(self, client: httpx2.AsyncClient) -> str:
        """Ask a question, report it as another user, and reject the report as a moderator."""
        question = {"product_id": self._product, "question": f"Is it heavy? {next(self._numbers)}"}
        asked = await client.post("/api/questions", json=question, extensions=self.sni())
        if asked.status_code != 201:
            return str(asked.status_code)
        self.questions.append(asked.json()["id"])
        about = {"model_type": "Question", "model_id": self.questions[-1]}
        report = about | {"message": "Advertising."}
        by = {"headers": self._as(REPORTER), "extensions": self.sni()}
        reported = await client.post("/api/abusive_reports", json=report, **by)
        if reported.status_code != 201:
            return str(reported.status_code)
        decision = about | {"record": "Read.", "reason": "It is a question."}
        by = {"headers": self._as(ADMIN), "extensions": self.sni()}
        return str((await client.post("/api/abusive_reports/reject", json=decision, **by)).status_code)

    async def _upload(self, client: httpx2.AsyncClient) -> str:
        picture = io.BytesIO()
        Image.new("RGB", (64, 64), (next(self._numbers) % 256, 80, 80)).save(picture, "PNG")
        files = {"attachment[]": ("picture.png", picture.getvalue(), "image/png")}
        answer = await client.post("/api/attachments", files=files, extensions=self.sni())
        if answer.status_code in (200, 201):
            self.pictures += [record["id"] for record in answer.json()]
        return str(answer.status_code)

    async def _read_analytics(self, client: httpx2.AsyncClient) -> str:
        return str((await client.get("/api/analytics", headers=self._as(OWNER), extensions=self.sni())).status_code)


class SoakModelServerLoad(ModelServerLoad):
    """Load on the model server. `receiver` is the webhook URL of its batches."""

    def __init__(self, address: str, name: str, key: str, *, receiver: str) -> None:
        self._receiver = receiver
        self._batch_numbers = itertools.count(1)
        self.batches: list[str] = []
        super().__init__(address, name, key, batch_size=1, streamers=1, askers=1, sockets=1, pause_s=1.0)

    def actions(self) -> Mapping[str, tuple[Action, int, float]]:
        more: dict[str, tuple[Action, int, float]] = {
            "brief requests": (
                self._request_briefly,
                8,
                0.25,
            ),  # a web process reaches its final size after some 8,000 requests
            "chat": (self._chat, 1, 1.0),
            "embeddings": (self._embed, 1, 2.0),
            "batches": (self._submit_batch, 1, 15.0),
        }
        return {f"models: {kind}": action for kind, action in ({**super().actions()} | more).items()}

    def record(self, kind: str, outcome: str) -> None:
        super().record(kind if kind.startswith("models: ") else f"models: {kind}", outcome)

    def lost(self, deliveries: Mapping[str, int]) -> Iterator[str]:
        """Yield each batch that did not complete, with a result for each request and a webhook delivery."""
        deadline = time.monotonic() + BATCH_TIMEOUT_SECONDS
        with self.client() as client:
            for batch_id in self.batches:
                while (state := self._status(client, batch_id)) == "processing" and time.monotonic() < deadline:
                    time.sleep(1)
                if state != "completed":
                    yield f"{batch_id} is {state}"
                lines = {"Accept": "application/x-ndjson"}
                results = client.get(f"/batch/{batch_id}/results", headers=lines, extensions=self.sni()).text
                found = Counter(row["id"] for row in map(json.loads, results.splitlines()) if row["choices"])
                if found != Counter(map(str, range(ROWS))):
                    yield f"{batch_id} has {len(found)} results of {ROWS}"
                while not deliveries.get(batch_id) and time.monotonic() < deadline:
                    time.sleep(1)
                if not deliveries.get(batch_id):
                    yield f"{batch_id} has no webhook delivery"

    def _status(self, client: httpx2.Client, batch_id: str) -> str:
        return str(client.get(f"/batch/{batch_id}", extensions=self.sni()).json()["status"])

    async def _chat(self, client: httpx2.AsyncClient) -> str:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Describe the Fjell lamp."}], "max_tokens": 16}
        return await self._post(client, "/v1/chat/completions", body)

    async def _request_briefly(self, client: httpx2.AsyncClient) -> str:
        return await self._post(client, "/inference", BRIEF)

    async def _embed(self, client: httpx2.AsyncClient) -> str:
        return await self._post(client, "/v1/embeddings", {"model": "stoa-encoder", "input": ["a lamp", "a teapot"]})

    async def _post(self, client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> str:
        return str((await client.post(path, json=body, extensions=self.sni())).status_code)

    async def _submit_batch(self, client: httpx2.AsyncClient) -> str:
        requests = [{"id": str(number), "prompt": f"Product {number} is"} for number in range(ROWS)]
        body = {"model": MODEL, "requests": requests, "max_tokens": 32, "webhook_url": self._receiver}
        key = {"Idempotency-Key": f"batch-{next(self._batch_numbers)}"}
        answer = await client.post("/batch", json=body, headers=key, extensions=self.sni())
        if answer.status_code == 200:
            self.batches.append(answer.json()["batch_id"])
        return str(answer.status_code)
