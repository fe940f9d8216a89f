"""The plan of a load, and the resources that all models of a host share."""

from collections.abc import Hashable

import msgspec

from inference.engine.host.backoff import Cooldowns
from inference.engine.host.launcher import Launcher
from inference.engine.host.memory_budget import MemoryBudget
from inference.engine.host.model_process import ModelSpec
from inference.engine.host.options import HostOptions
from inference.engine.host.supervision import HealthCheck


class HostResources(msgspec.Struct, frozen=True):
    """Resources that all models of a host share. measured_bytes: memory of a replica by content, at its last load."""

    launcher: Launcher
    memory_budget: MemoryBudget
    cooldowns: Cooldowns
    options: HostOptions
    health_check: HealthCheck
    measured_bytes: dict[Hashable, int]


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one load.

    content: everything that the outcome of the load depends on.
    replica_content: the same without the number of replicas.
    memory_bytes: of all replicas, measured at an earlier load, or estimated.
    load_bytes: the part of it that the load takes at once, estimated.
    for_request: a request waits for the model.
    background: nobody waits for the model, so it evicts no other.
    """

    spec: ModelSpec
    content: Hashable
    replica_content: Hashable
    memory_bytes: int
    load_bytes: int
    for_request: bool = False
    background: bool = False
