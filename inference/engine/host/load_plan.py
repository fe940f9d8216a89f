"""What a hosted model is to be, and what the models of one host share."""

from collections.abc import Hashable

import msgspec

from inference.engine.host.backoff import CoolDowns
from inference.engine.host.launcher import Launcher
from inference.engine.host.memory_budget import Room
from inference.engine.host.model_process import ModelSpec
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import Health


class Host(msgspec.Struct, frozen=True):
    """What the models of one host share. costs: what a content took when it was loaded last, bytes."""

    launcher: Launcher
    room: Room
    cool_downs: CoolDowns
    policy: HostOptions
    health: Health
    costs: dict[Hashable, int]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One model as it is to be. `content` is all that its load depends on; `memory_bytes` is what it may take.

    for_request: a request waits for it. background: nobody does, and it takes no other's room.
    """

    spec: ModelSpec
    content: Hashable
    memory_bytes: int
    for_request: bool = False
    background: bool = False
