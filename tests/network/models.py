"""Operations on a model server, and the comparison of its tables with what its clients know."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2

from tests.network.clients import RECOVERY_SECONDS, Operation, Operations, is_unknown

Rows = Callable[[str], list[tuple[Any, ...]]]  # runs a query on the database, past the relays
PROMPTS = ("The lamp is", "The kettle is", "The teapot is", "A chair that")
BATCH_SIZE = 3
SAMPLING = {"temperature": 0, "max_tokens": 12}
WHOLE_STATUSES = ("completed", "incomplete")  # incomplete: max_output_tokens were reached
UNFINISHED = """
    SELECT batch_id, status FROM inference_batches_batch WHERE status = 'processing' AND accept_before IS NULL
    UNION ALL SELECT response_id, status FROM inference_responses_storedresponse
    WHERE status IN ('queued', 'in_progress')
"""
BATCHES = """
    SELECT batch_id, total, completed, failed,
        (SELECT count(*) FROM inference_batches_batchresult result JOIN inference_batches_batchrequest request
            ON request.id = result.request_id WHERE request.batch_id = batch.id) AS results,
        (SELECT count(*) FROM inference_batches_batchrequest request WHERE request.batch_id = batch.id
            AND status = 'failed' AND is_lonely AND attempts >= 3) AS used_up
    FROM inference_batches_batch batch WHERE accept_before IS NULL
"""  # used_up: requests that lost the model at each of their three attempts, the last one alone
RESPONSES = "SELECT response_id, status, body FROM inference_responses_storedresponse"


class ModelOperations(Operations):
    """Generations, streams, responses and batches by a local model and by the same model of another server.

    far: the name under which the server uses itself as a remote server.
    """

    def __init__(self, url: str, key: str, model: str, far: str) -> None:
        super().__init__(url)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._model, self._far = model, far
        self._texts: dict[str, str] = {}
        self._response_texts: set[str] = set()
        self.batches: dict[int, str] = {}
        self.responses: dict[int, str] = {}

    def kinds(self) -> Mapping[str, tuple[Operation, int]]:
        return {
            "generation": (self._generate, 3),
            "generation of another server": (self._generate_far, 3),
            "stream": (self._stream, 3),
            "response": (self._respond, 3),
            "response in the background": (self._respond_later, 2),
            "batch": (self._submit, 2),
        }

    def learn_texts(self) -> None:
        """Store what the model answers to each prompt without faults."""
        self.learn_generations()
        for prompt in PROMPTS:
            response = httpx2.post(
                f"{self.url}/v1/responses", json=self._response_body(prompt), headers=self._headers, timeout=60
            )
            self._response_texts.add(text_of(response.json()))

    def learn_generations(self) -> None:
        for prompt in PROMPTS:
            body = {"model": self._model, "prompt": prompt, **SAMPLING}
            response = httpx2.post(f"{self.url}/inference", json=body, headers=self._headers, timeout=60)
            assert response.status_code == 200, response.text
            self._texts[prompt] = response.json()["choices"][0]["text"]

    def _response_body(self, prompt: str) -> dict[str, Any]:
        return {"model": self._model, "input": prompt, "temperature": 0, "max_output_tokens": 12}

    async def _generate(self, number: int, dice: random.Random, model: str = "") -> None:
        prompt = dice.choice(PROMPTS)
        body = {"model": model or self._model, "prompt": prompt, **SAMPLING}
        response = await self.ask(number, "POST", "/inference", json=body, headers=self._headers)
        if response.json()["choices"][0]["text"] != self._texts[prompt]:
            self.report(number, "POST", "/inference", response)

    async def _generate_far(self, number: int, dice: random.Random) -> None:
        await self._generate(number, dice, self._far)

    async def _stream(self, number: int, dice: random.Random) -> None:
        """Read a stream, which ends whole, by an error event or by the end of its connection."""
        prompt = dice.choice(PROMPTS)
        body = {"model": dice.choice([self._model, self._far]), "prompt": prompt, **SAMPLING}
        response = await self.attempt("POST", "/inference/stream", json=body, headers=self._headers)
        if response is None or is_unknown(response):
            return
        lines = response.text.splitlines()
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        if response.status_code != 200 or not events:
            self.report(number, "POST", "/inference/stream", response)
        if "error" not in events[-1]:
            text = "".join(event.get("token", "") for event in events)
            if not events[-1].get("done") or text != self._texts[prompt]:
                self.report(number, "POST", "/inference/stream", response)

    async def _respond(self, number: int, dice: random.Random) -> None:
        body = self._response_body(dice.choice(PROMPTS))
        response = await self.ask(number, "POST", "/v1/responses", json=body, headers=self._headers)
        self.responses[number] = response.json()["id"]
        stored = await self.ask(number, "GET", f"/v1/responses/{self.responses[number]}", headers=self._headers)
        if stored.json()["output"] != response.json()["output"]:
            self.report(number, "GET", "/v1/responses", stored)

    async def _respond_later(self, number: int, dice: random.Random) -> None:
        body = self._response_body(dice.choice(PROMPTS)) | {"background": True}
        response = await self.ask(number, "POST", "/v1/responses", json=body, headers=self._headers)
        self.responses[number] = response.json()["id"]

    async def _submit(self, number: int, dice: random.Random) -> None:
        requests = [{"id": str(index), "prompt": dice.choice(PROMPTS)} for index in range(BATCH_SIZE)]
        body = {"model": self._model, "requests": requests, **SAMPLING}
        response = await self.ask(number, "POST", "/batch", json=body, headers=self._headers)
        self.batches[number] = response.json()["batch_id"]

    def wait_until_finished(self, rows: Rows) -> list[str]:
        """Wait until all batches and responses have ended; return those that have not a minute after the last fault."""
        assert self.faults_ended_at is not None
        while unfinished := rows(UNFINISHED):
            if time.monotonic() > self.faults_ended_at + RECOVERY_SECONDS:
                break
            time.sleep(0.2)
        return [f"{name} is {status}" for name, status in unfinished]

    def differences(self, rows: Rows) -> Iterator[str]:
        """Yield every difference between the tables and what was acknowledged, given up or refused."""
        batches = {row[0]: row[1:] for row in rows(BATCHES)}
        for batch_id, (total, completed, failed, results, used_up) in batches.items():
            self.outcomes["requests of batches after three attempts"] += used_up
            if (total, completed + failed, failed, results) != (BATCH_SIZE, BATCH_SIZE, used_up, BATCH_SIZE):
                yield f"{batch_id}: {total} requests, {completed} completed, {failed} failed, {results} results"
        yield from (f"{batch_id} is missing" for batch_id in self.batches.values() if batch_id not in batches)
        yield from twice("batch", self.batches)
        responses = {response_id: (status, json.loads(body)) for response_id, status, body in rows(RESPONSES)}
        yield from (f"{one} is missing" for one in self.responses.values() if one not in responses)
        yield from twice("response", self.responses)
        for response_id, (status, body) in responses.items():
            is_whole = text_of(body) in self._response_texts
            if body["status"] != status or is_whole != (status in WHOLE_STATUSES):
                yield f"{response_id} is {status}, its body {body['status']}: {text_of(body)}"


def text_of(response: Mapping[str, Any]) -> str:
    """Return the text of a response of /v1/responses."""
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


def twice(kind: str, acknowledged: Mapping[int, str]) -> Iterator[str]:
    counts = Counter(acknowledged.values())
    yield from (f"{kind} {one} answers {count} operations" for one, count in counts.items() if count > 1)
