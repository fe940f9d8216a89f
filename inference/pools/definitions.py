"""Pools and members as requests use them."""

import re
from dataclasses import dataclass
from functools import lru_cache

from inference.local.replicas import LocalReplica
from inference.remote.configuration import RemoteModel, server_of

LOCAL = "local"  # kind of the member that is the model of this machine
REPLICA_SEPARATOR = "/"  # of the names of a member and of its replica; members have none in theirs


@dataclass(frozen=True)
class Member:
    """A member of a pool. error: why its configuration cannot be used.

    max_waiting: of a local member, the requests that may wait there before others go to the other members.
    order: members of a lower order are tried first. takes_batches: whole batches are handed to it.
    """

    name: str
    model: RemoteModel | LocalReplica
    weight: int = 1
    is_draining: bool = False
    error: str | None = None
    max_waiting: int = 0
    order: int = 0
    takes_batches: bool = False

    @property
    def is_local(self) -> bool:
        return isinstance(self.model, LocalReplica)

    @property
    def key(self) -> tuple[str, str]:
        """The model's id and the member's name."""
        return (self.model.id, self.name)


@dataclass(frozen=True)
class Pool:
    """A model and its members, of which there is at least one: models of other servers, or replicas on this machine."""

    model_id: str
    members: tuple[Member, ...]

    @property
    def capabilities(self) -> tuple[str, ...]:
        """All that any of the members can do."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.model.capabilities))

    @property
    def context_size(self) -> int:
        """The smallest context that a member is configured with, or 0."""
        return min((member.model.context_size for member in self.members if member.model.context_size), default=0)

    def members_for(self, capability: str) -> tuple[Member, ...]:
        """Return the members that can do this, or all of them if none says so: its server then answers."""
        able = tuple(member for member in self.members if member.is_local or capability in member.model.capabilities)
        return able or self.members

    @property
    def local(self) -> Member | None:
        """The model of this machine, if it is a member."""
        return next((member for member in self.members if member.is_local), None)

    @property
    def remote_members(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if not member.is_local)


@lru_cache(maxsize=256)
def replica_pool(model_id: str, count: int) -> Pool:
    """Return the replicas of a model on this machine as a pool."""
    return Pool(
        model_id, tuple(Member(replica_name(number), LocalReplica(model_id, number)) for number in range(count))
    )


def replica_name(number: int) -> str:
    return f"replica-{number}"


def single_member_pool(model: RemoteModel) -> Pool:
    return Pool(model.id, (Member(member_name(model.base_url), model),))


def default_member_name(kind: str, base_url: str) -> str:
    return kind if kind == LOCAL else member_name(base_url)


def member_name(base_url: str) -> str:
    """Return the default name of a member: the host and port of its URL."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", server_of(base_url)).strip("-.")[:60] or "member"
