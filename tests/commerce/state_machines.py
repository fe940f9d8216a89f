"""Random walks through a part of the API, beside a model of it in memory. They are few and short every day; WALKS=300
in the environment is what row X7 asks for, and then they have 50 steps."""

import os
from typing import Any

from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

SETTINGS = settings(
    stateful_step_count=50 if "WALKS" in os.environ else 30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
NAMES = st.text("abcÄß 12=-'\"", min_size=1, max_size=12).map(str.strip).filter(bool)
NUMBERS = st.integers(-(2**63), 2**63) | st.floats(-1e6, 1e6)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


class Walk(RuleBasedStateMachine):
    """A random walk whose writes are rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self._all = transaction.atomic()
        self._all.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self._all.__exit__(None, None, None)


def walk(machine: type[RuleBasedStateMachine], walks: int = 8) -> None:
    """Run this number of walks, or as many as WALKS says."""
    chosen = settings(SETTINGS, max_examples=int(os.environ.get("WALKS", walks)))
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[no-untyped-call]


def ask(client: Client, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Return the status and the body of a response."""
    sent = {} if body is None else {"data": body, "content_type": "application/json"}
    answer = getattr(client, method)(f"/api/{path}", **sent)
    return answer.status_code, answer.json()
