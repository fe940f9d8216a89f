"""Options, reports and states of loaded models, as frozen structs."""

from enum import StrEnum
from itertools import zip_longest

import msgspec


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a load. `LoadReport` has the values in effect.

    gpu_layers: decoder layers on the GPU; 0 is CPU only.
    context_size: prompt plus completion, in tokens; None is the smaller of 2,048 and the model's own limit.
    batch_size: maximum prompt tokens per step.
    max_sequences: maximum sequences that run at once, which is the number of cache slots.
    max_queue: maximum requests that wait for a slot.
    max_queue_tokens: maximum prompt tokens of all waiting requests.
    dtype: weight type, `float32`, `bfloat16` or `auto`: on the CPU the fastest exact one, on a GPU bfloat16. Processors
        with bfloat16 products may round the rows that weights are multiplied with, too.
    cache_dtype: type of keys and values, `float32`, or `auto`: float16 in compiled kernels with quantized weights,
        bfloat16 in Triton's kernels, and float32 otherwise.
    quantization: `none`, `int8` or `int4`. int8 on the CPU is a quarter of the memory and several times the speed, for
        nearly the same text; encoders take about 70 % of the time, and keep their embeddings in float32. On a GPU it
        is half of bfloat16's memory at about its speed. int4 is for own decoders on the CPU: half of int8's
        memory, with larger differences in the text; embedding and output matrix have eight bits.
    engine: `stoa`, or the name of another engine that runs the model.
    engine_options: its own options with their values, sorted by name.
    replicas: processes that run the model, each with weights and a cache of its own.
    """

    gpu_layers: int = 0
    context_size: int | None = None
    batch_size: int = 512
    max_sequences: int = 16
    max_queue: int = 256
    max_queue_tokens: int = 262_144
    dtype: str = "auto"
    cache_dtype: str = "auto"
    quantization: str = "none"
    engine: str = "stoa"
    engine_options: tuple[tuple[str, str | int | float | bool], ...] = ()
    replicas: int = 1


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a load: options in effect and measured costs.

    dtype: weight type of the GPU layers, if there are any.
    memory_usage_bytes: weights and cache as allocated, the sum of the next two. All bytes are those of all replicas.
    weight_bytes: weights and tables.
    cache_limit_bytes: the cache when all slots are full. Compiled kernels take memory for what is used only.
    cache_dtype: type of keys and values, of the GPU layers if there are any.
    gpu_memory_bytes: the part of `memory_usage_bytes` that is on the GPU.
    load_time_ms: from the load command until the model was ready.
    kernels: `compiled` for this machine, `triton` for layers on the GPU, `torch`, or `transformers` for its code.
    engine: that runs the model, as in the options.
    replicas: processes that run the model.
    warning: options that could not be followed, or None.
    is_shared: an earlier command has loaded the model, or was loading it.
    """

    model_id: str
    memory_usage_bytes: int
    load_time_ms: int
    gpu_layers: int
    context_size: int
    batch_size: int
    max_sequences: int
    dtype: str
    device: str
    weight_bytes: int = 0
    cache_limit_bytes: int = 0
    cache_dtype: str = "float32"
    gpu_memory_bytes: int = 0
    quantization: str = "none"
    kernels: str = "torch"
    engine: str = "stoa"
    replicas: int = 1
    warning: str | None = None
    is_shared: bool = False


class ModelState(StrEnum):
    """The states of a model in its host."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    UNLOADING = "unloading"
    FAILED = "failed"


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a model: one process, and those that follow it after crashes.

    number: 0 for the first.
    state: `loading`, `loaded`, `unloading`, or `failed` while it rests before another start.
    error: why its last process ended, unless it is loaded.
    device: the GPU that it has for itself, as CUDA_VISIBLE_DEVICES names it.
    """

    number: int
    state: ModelState
    pid: int | None = None
    error: str | None = None
    device: str | None = None
    resident_bytes: int | None = None
    cache_bytes: int | None = None


class ModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A model that the host runs, starts, stops or failed to run. Models that were never loaded are not listed.

    options: the requested options; `report` has those in effect.
    revision: see `HostClient.load`.
    pid: of its first process.
    progress: of a load, 0 to 1.
    memory_bytes: share of the memory budget; an estimate until the model is loaded.
    resident_bytes: resident set size of its processes.
    cache_bytes: memory of its cache at the last health check.
    busy: it has unfinished requests.
    used_at: when a request last began or ended, in seconds of the monotonic clock.
    suspended: the host unloaded it for another model or because it was idle; the next request loads it again.
    retry_after: seconds until a failed model is tried again.
    replicas: its processes, if it has several.
    """

    model_id: str
    state: ModelState
    pid: int | None = None
    error: str | None = None
    report: LoadReport | None = None
    options: LoadOptions = LoadOptions()
    revision: int = 0
    progress: float | None = None
    memory_bytes: int = 0
    resident_bytes: int | None = None
    cache_bytes: int | None = None
    busy: bool = False
    used_at: float | None = None
    suspended: bool = msgspec.field(default=False, name="resting")
    retry_after: float | None = None
    replicas: tuple[ReplicaStatus, ...] = ()


QUEUE_TIME_BUCKETS_SECONDS = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one model process, or sums of several. The last six count from its start.

    running, waiting: choices with a slot, and without one.
    slots: maximum choices that run at once.
    cache_tokens: positions of the KV cache that running choices fill, of `cache_capacity`.
    cache_bytes: memory that the KV cache takes now, cached prefixes included.
    prefix_cache_queries, prefix_cache_hits: prompt tokens received, and those found in the prefix cache.
    preemptions: choices that lost their slot to another before they ended.
    generated_tokens: sampled tokens.
    queue_counts: requests by time until their first slot: one count per bucket of QUEUE_TIME_BUCKETS_SECONDS, and one
        for longer times.
    queue_seconds: the sum of these times.
    """

    running: int
    waiting: int
    slots: int
    cache_tokens: int = 0
    cache_capacity: int = 0
    cache_bytes: int = 0
    prefix_cache_queries: int = msgspec.field(default=0, name="prefix_queried")
    prefix_cache_hits: int = msgspec.field(default=0, name="prefix_hit")
    preemptions: int = 0
    generated_tokens: int = 0
    queue_counts: tuple[int, ...] = ()
    queue_seconds: float = 0.0

    def __add__(self, other: "EngineStats") -> "EngineStats":
        """Return the sums of two processes' counters."""
        counts = tuple(map(sum, zip_longest(self.queue_counts, other.queue_counts, fillvalue=0)))
        names = [name for name in self.__struct_fields__ if name != "queue_counts"]
        return EngineStats(queue_counts=counts, **{name: getattr(self, name) + getattr(other, name) for name in names})
