"""Wire structs of models: listing, loading and unloading them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import ENGINE_NAMES, STOA, LoadOptions, check_engine_options
from inference.protocol.fields import ModelId
from inference.protocol.native.body import RequestBody

MAX_INT32 = 2**31 - 1
MAX_REPLICAS = 64

GpuLayers = Annotated[int, Meta(description="Number of layers on the GPU; 0 is the CPU.", examples=[0])]
ContextSize = Annotated[
    int, Meta(description="Maximum number of tokens of a prompt and its completion together.", examples=[1024])
]
BatchSize = Annotated[int, Meta(description="Maximum number of prompt tokens in one step.", examples=[512])]
MaxSequences = Annotated[int, Meta(description="Maximum number of requests that run at once.", examples=[16])]
Quantization = Annotated[
    str,
    Meta(
        description="Form of the weights: `none`; `int8`, which needs a quarter of the memory of `float32` and is "
        "faster, with nearly the same text, embeddings or scores; or `int4`, which needs half of that.",
        examples=["none"],
    ),
]
DType = Annotated[
    str,
    Meta(
        description="Number type of the weights. `auto` is exact on the CPU, and `bfloat16` on a GPU.",
        examples=["float32"],
    ),
]
Device = Annotated[str, Meta(description="Device that the model runs on.", examples=["cpu"])]
MemoryUsage = Annotated[
    int, Meta(description="Bytes of the weights and of the KV cache at its limit.", examples=[96_468_992])
]
WeightBytes = Annotated[int, Meta(description="Bytes of the weights.", examples=[21_200_384])]
CacheLimit = Annotated[
    int, Meta(description="Bytes of the KV cache when all sequences are as long as possible.", examples=[75_268_608])
]
GpuMemory = Annotated[
    int, Meta(description="Bytes of `memory_usage_bytes` that are on the GPU; 0 on the CPU.", examples=[0])
]
CacheDType = Annotated[
    str,
    Meta(
        description="Number type of the KV cache: `float32`, `float16` beside quantized weights, or `bfloat16` on a "
        "GPU.",
        examples=["float32"],
    ),
]
EngineName = Annotated[
    str,
    Meta(
        description="Engine that runs the model: Stoa's own, or another one that an operator has installed on the "
        "server.",
        extra_json_schema={"enum": list(ENGINE_NAMES)},
        examples=[STOA],
    ),
]
Replicas = Annotated[
    int,
    Meta(
        description="Number of processes that run the model on this machine, each with weights and a cache of its own.",
        examples=[1],
    ),
]
LoadTime = Annotated[int, Meta(description="Time that loading took in milliseconds.", examples=[840])]
LoadWarning = Annotated[
    str,
    Meta(
        description="Option that was changed, such as a context size above the model's limit.",
        examples=["context_size 2048 is above the model's limit: 1024 is used."],
    ),
]


class PoolMemberInfo(Struct):
    """A member of the pool of a remote model."""

    name: Annotated[str, Meta(description="Name of the member.", examples=["gpu-1.example-8000"])]
    state: Annotated[
        str,
        Meta(
            description="`ready`; `failed`, until it answers again; or `draining`: it finishes its requests and gets "
            "no new ones.",
            examples=["failed"],
        ),
    ]
    error: Annotated[
        str | None,
        Meta(
            description="Reason why it failed, otherwise null.",
            examples=["The remote server rejects the configured API key."],
        ),
    ] = None
    warning: Annotated[
        str | None,
        Meta(
            description="What is wrong with its server although it answers, otherwise null.",
            examples=["Its clock is 3600 seconds behind: set it by NTP."],
        ),
    ] = None


class ReplicaInfo(Struct):
    """A replica of a loaded model: a process that runs it."""

    replica: Annotated[int, Meta(description="Number of the replica; the first is 0.", examples=[0])]
    state: Annotated[
        str,
        Meta(
            description="`loading`, also after a crash; `loaded`; `unloading`; or `failed`: it crashed repeatedly and "
            "is started again after a pause.",
            examples=["loaded"],
        ),
    ]
    error: Annotated[
        str | None,
        Meta(description="Reason why its last process ended, otherwise null.", examples=["The model process ended."]),
    ] = None
    device: Annotated[
        str | None,
        Meta(description="GPU that it has for itself, where the machine has several; otherwise null.", examples=["1"]),
    ] = None
    resident_bytes: Annotated[
        int | None, Meta(description="Resident memory of its process in bytes.", examples=[402_653_184])
    ] = None


class ModelInfo(Struct, kw_only=True):
    """A model: what is in effect if it is loaded, otherwise what its files say."""

    id: ModelId
    name: Annotated[str, Meta(description="Name of the model; the same as its id.", examples=["stoa-describer"])]
    type: Annotated[
        str, Meta(description="Format of the model: `safetensors`, `gguf` or `remote`.", examples=["safetensors"])
    ]
    size_bytes: Annotated[int, Meta(description="Bytes of the weights on disk.", examples=[21_200_384])]
    loaded: Annotated[bool, Meta(description="Whether the model is ready for requests.", examples=[True])]
    context_size: ContextSize
    capabilities: Annotated[
        list[str],
        Meta(
            description="Supported requests: `text-generation`, `embeddings`, `rerank` or `classification`.",
            examples=[["text-generation"]],
        ),
    ]
    state: Annotated[
        str, Meta(description="`unloaded`, `loading`, `loaded`, `unloading` or `failed`.", examples=["loaded"])
    ]
    error: Annotated[
        str | None,
        Meta(
            description="Reason why the model failed or cannot be loaded, otherwise null.",
            examples=["Its weights are incomplete."],
        ),
    ]
    parameters: Annotated[int | None, Meta(description="Number of parameters.", examples=[5_271_552])] = None
    base: Annotated[
        str | None,
        Meta(description="Id of the base model, if the model is an adapter.", examples=["SmolLM2-135M-Instruct"]),
    ] = None
    quantization: Quantization | None = None
    dtype: DType | None = None
    device: Device | None = None
    engine: EngineName | None = None
    progress: Annotated[
        float | None, Meta(description="Progress of loading, from 0 to 1; null unless it is loading.", examples=[0.4])
    ] = None
    memory_usage_bytes: MemoryUsage | None = None
    weight_bytes: WeightBytes | None = None
    cache_bytes: Annotated[
        int | None,
        Meta(
            description="Bytes that the KV cache takes, as of some seconds ago. Compiled kernels take memory for what "
            "is used only.",
            examples=[4_194_304],
        ),
    ] = None
    cache_limit_bytes: CacheLimit | None = None
    gpu_memory_bytes: GpuMemory | None = None
    cache_dtype: CacheDType | None = None
    resident_bytes: Annotated[
        int | None, Meta(description="Resident memory of the model's processes in bytes.", examples=[402_653_184])
    ] = None
    replicas: Replicas | None = None
    replica_states: Annotated[
        list[ReplicaInfo] | None,
        Meta(description="Each replica of a model that has several and is loaded or loading, otherwise null."),
    ] = None
    members: Annotated[
        list[PoolMemberInfo] | None,
        Meta(
            description="Members of the pool of a remote model; null for other models, and without the permission "
            "`manage_models`."
        ),
    ] = None
    load_time_ms: LoadTime | None = None
    gpu_layers: GpuLayers | None = None
    batch_size: BatchSize | None = None
    max_sequences: MaxSequences | None = None
    warning: LoadWarning | None = None


class ModelList(Struct):
    """All models."""

    models: Annotated[list[ModelInfo], Meta(description="Models in the order of their ids.")]


class LoadModelRequest(RequestBody):
    """Options of loading a model."""

    gpu_layers: Annotated[GpuLayers, Meta(ge=0, le=MAX_INT32)] = 0
    context_size: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_INT32,
                description="Maximum number of tokens of a prompt and its completion together. By default 2048 or the "
                "model's own limit, whichever is less.",
                examples=[512],
            ),
        ]
        | UnsetType
    ) = UNSET
    batch_size: Annotated[BatchSize, Meta(ge=1, le=32768)] = 512
    max_sequences: Annotated[MaxSequences, Meta(ge=1, le=256)] = 16
    quantization: Annotated[
        Literal["none", "int8", "int4"],
        Meta(
            description="Form of the weights. `int8` needs a quarter of the memory of `float32` and is faster, with "
            "nearly the same text, embeddings or scores. Encoders keep their token embeddings in `float32`. `int4` is "
            "for families that have a decoder of Stoa's own, on the CPU: half of that memory, with text that differs "
            "more."
        ),
    ] = "none"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Meta(description="Number type of the weights. `auto` is exact on the CPU, and `bfloat16` on a GPU."),
    ] = "auto"
    cache_dtype: Annotated[
        Literal["auto", "float32"],
        Meta(
            description="Number type of the KV cache. `auto` is `float16` beside quantized weights, which needs half "
            "of the memory for nearly the same text, and `float32` otherwise."
        ),
    ] = "auto"
    engine: EngineName = STOA
    engine_options: Annotated[
        dict[str, Any],
        Meta(
            description="Options of another engine's server by their names there, as `stoa engines list` shows them.",
            examples=[{}],
        ),
    ] = {}
    replicas: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_REPLICAS,
            description="Number of processes that run the model. Requests are spread over them: those that begin alike "
            "go to one. Each takes the memory of the model, and one GPU where the machine has several.",
            examples=[2],
        ),
    ] = 1

    def options(self) -> LoadOptions:
        """Return these as the model host's options. Raise InvalidRequest for options that the engine lacks."""
        check_engine_options(self.engine, self.engine_options)
        return LoadOptions(
            gpu_layers=self.gpu_layers,
            context_size=None if self.context_size is UNSET else self.context_size,
            batch_size=self.batch_size,
            max_sequences=self.max_sequences,
            quantization=self.quantization,
            dtype=self.dtype,
            cache_dtype=self.cache_dtype,
            engine=self.engine,
            engine_options=tuple(sorted(self.engine_options.items())),
            replicas=self.replicas,
        )


class LoadModelResponse(Struct, kw_only=True, omit_defaults=True):
    """A loaded model with its memory usage and the options in effect."""

    status: Annotated[str, Meta(description="Always `loaded`.", examples=["loaded"])]
    model_id: ModelId
    memory_usage_bytes: MemoryUsage
    weight_bytes: WeightBytes
    cache_limit_bytes: CacheLimit
    gpu_memory_bytes: GpuMemory
    cache_dtype: CacheDType
    load_time_ms: LoadTime
    gpu_layers: GpuLayers
    context_size: ContextSize
    batch_size: BatchSize
    max_sequences: MaxSequences
    quantization: Quantization
    dtype: DType
    device: Device
    engine: EngineName
    replicas: Replicas
    warning: LoadWarning | None = None


class UnloadModelRequest(RequestBody):
    """Options of unloading a model."""

    force: Annotated[
        bool, Meta(description="Whether to cancel running requests instead of letting them finish.", examples=[True])
    ] = False


class UnloadModelResponse(Struct):
    """An unloaded model."""

    status: Annotated[str, Meta(description="Always `unloaded`.", examples=["unloaded"])]
    model_id: ModelId
