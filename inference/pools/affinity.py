"""The choice of a member: prefix affinity by weighted rendezvous hashing, within a bound on its share of the load.

Requests that begin alike go to one member, whose prefix cache has their beginning. When a member is added or removed,
only its own share moves (Thaler and Ravishankar, 1998; weights after Schindelhauer and Schomaker, 2005). The bound is
that of consistent hashing with bounded loads (Mirrokni et al., 2018).
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence

from inference.engine import GenerationRequest, ScoringRequest
from inference.pools.definitions import Member

BLOCK_LENGTH = 1024  # characters or ids of a prompt, and of each message, that count
LOAD_FACTOR = 2.0  # a member may have this multiple of its share of the running requests, but of two never all
MIN_BOUND = 4  # below, affinity matters more than an even load: servers run a few requests at once

Loads = Mapping[tuple[str, str], int]


def affinity_key(request: GenerationRequest) -> bytes:
    """Return what requests with one beginning have in common.

    Of a chat it is the first block of each message up to the first of the user: all turns of a conversation share
    it. Otherwise it is the first block of the prompt. Users never share a prefix cache, as in our own engine.
    """
    if request.messages is not None:
        parts = []
        for message in request.messages:
            parts.append(f"{message.role}\0{message.content[:BLOCK_LENGTH]}")
            if message.role == "user":
                break
        text = "\0".join(parts)
    elif request.prompt is not None:
        text = request.prompt[:BLOCK_LENGTH]
    else:
        text = ",".join(map(str, (request.prompt_ids or ())[:BLOCK_LENGTH]))
    return f"{request.user}\0{text}".encode(errors="replace")


def scoring_key(request: ScoringRequest) -> bytes:
    """Return what questions about one context have in common. Texts to score have nothing."""
    text = request.context[:BLOCK_LENGTH] if request.questions else request.request_id
    return f"{request.user}\0{text}".encode(errors="replace")


def choose_member(key: bytes, members: Sequence[Member], loads: Loads) -> Member:
    """Return the member with the highest rank for the key among those below their bound of running requests."""
    total_load = sum(loads.get(member.key, 0) for member in members) + 1
    total_weight = sum(member.weight for member in members)
    for member in rank_members(key, members):
        share = member.weight / total_weight
        bound = max(MIN_BOUND, math.ceil(min(LOAD_FACTOR * share, (1 + share) / 2) * total_load))
        if loads.get(member.key, 0) < bound:
            return member
    return min(members, key=lambda member: loads.get(member.key, 0) / member.weight)


def rank_members(key: bytes, members: Iterable[Member]) -> list[Member]:
    """Return the members by their rank for the key; each is first for a share of keys in proportion to its weight."""
    return sorted(members, key=lambda member: member.weight / -math.log(_uniform(key, member.name)), reverse=True)


def _uniform(key: bytes, name: str) -> float:
    """Return a number in (0, 1) that is the same for the same key and name on every machine."""
    digest = hashlib.blake2b(name.encode() + b"\0" + key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64
