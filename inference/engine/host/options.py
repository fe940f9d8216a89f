"""Options of a model host: its memory budget, eviction and loading by requests."""

import msgspec


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the operator, and some times that tests shorten. Times are seconds.

    memory_budget: bytes of weights and caches of all loaded models; None is unlimited.
    max_loaded: maximum number of loaded models; None is unlimited.
    evict: a load may unload the idle model that was used longest ago.
    autoload: a request for a model that is not loaded loads it.
    idle_unload: time after which an unused model is unloaded; None is never.
    admission_timeout: maximum wait of a load for memory.
    drain_after: wait of a load after which a busy model is drained for it, if `autoload` is on.
    reservation: time for which a model stays loaded for the request that loaded it.
    first_cooldown, max_cooldown: pause after a failed load. It doubles with each failure.
    system_root: folder of the system's /proc, /sys and /dev, by which its free memory is known.
    """

    memory_budget: int | None = None
    max_loaded: int | None = None
    evict: bool = False
    autoload: bool = False
    idle_unload: float | None = None
    admission_timeout: float = 60.0
    drain_after: float = 1.0
    reservation: float = 5.0
    first_cooldown: float = 5.0
    max_cooldown: float = 300.0
    system_root: str = "/"
