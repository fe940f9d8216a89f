"""How a model host shares its machine among models."""

import msgspec


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's choice, and some times that tests shorten.

    memory_budget: bytes that weights and caches of all loaded models may take together; None: no limit.
    max_loaded: so many models at once; None: no limit.
    evict: who needs room gets that of the idle model that was used longest ago.
    autoload: a request for a model that is not loaded loads it.
    idle_unload: seconds after which a model that nobody uses is unloaded; None: never.
    room_wait: seconds for which a load waits for room.
    crowded: seconds of that wait after which a busy model takes nothing new, so that it is idle some day.
    held: seconds for which a model is kept for the request that it was loaded for.
    first_cool_down, longest_cool_down: seconds for which a model that failed is not tried again; they double.
    """

    memory_budget: int | None = None
    max_loaded: int | None = None
    evict: bool = False
    autoload: bool = False
    idle_unload: float | None = None
    room_wait: float = 60.0
    crowded: float = 1.0
    held: float = 5.0
    first_cool_down: float = 5.0
    longest_cool_down: float = 300.0
