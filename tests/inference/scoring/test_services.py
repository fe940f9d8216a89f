"""Scores of several requests, which count as one."""

from typing import Any

import pytest
from pytest_django import Settings

from inference.engine import ContextLengthExceeded, ScoringRequest, ScoringResult, Usage
from inference.scoring import services
from inference.usage import services as usage_services
from inference.usage.ledger import LedgerAmount
from inference.usage.metering import UsageMeter
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from tests.inference.usage.recording_buffer import RecordingBuffer


@pytest.mark.parametrize(("too_long", "counted"), [(None, [15]), (2, [10]), (0, [])])
async def test_what_was_scored_before_an_error_counts(
    too_long: int | None, counted: list[int], settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    async def score(model_id: str, request: Any) -> ScoringResult:
        if request.request_id == f"one-{too_long}":
            raise ContextLengthExceeded("too long")
        return ScoringResult(request_id="", scores=((0.5,),), prompt_tokens=5, cached_tokens=2)

    settings.REDIS_URL = ""
    buffer = RecordingBuffer()
    monkeypatch.setattr(usage_services, "usage_meter", UsageMeter(buffer))
    monkeypatch.setattr(services.model_engine, "score", score)
    scoring = services.score_requests(
        caller=Principal(user=User(pk=1), permissions=frozenset()),
        model_id="m",
        requests=[ScoringRequest(request_id="one", texts=("a",))] * 3,
    )
    if too_long is None:
        assert len(await scoring) == 3
    else:
        with pytest.raises(ContextLengthExceeded):
            await scoring
    assert buffer.added == [LedgerAmount(1, Usage(tokens, 0, tokens // 5 * 2)) for tokens in counted]
