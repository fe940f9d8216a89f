"""OpenAPI texts and examples of models and of the service's health."""

from typing import Any

from inference.access.docs import TEXT_MODEL, OperationDocs

_OPENAI_MODEL = {"id": TEXT_MODEL, "object": "model", "created": 1795275625, "owned_by": "stoa"}
_LOADED: dict[str, Any] = {
    "memory_usage_bytes": 96_468_992,
    "weight_bytes": 21_200_384,
    "cache_limit_bytes": 75_268_608,
    "gpu_memory_bytes": 0,
    "cache_dtype": "float32",
    "load_time_ms": 840,
    "gpu_layers": 0,
    "context_size": 1024,
    "batch_size": 512,
    "max_sequences": 16,
    "quantization": "none",
    "dtype": "float32",
    "device": "cpu",
    "engine": "stoa",
    "replicas": 1,
}

HEALTH = OperationDocs(
    summary="Check the service's health",
    description="""
    Returns the state of the service, its version and the number of loaded models. Anybody may call it. The status is
    `degraded` while a model that should be loaded is not; the response is 200 then, too. Load balancers should use
    `GET /readyz`, which answers 503 while the service cannot work.
    """,
    response_example={"status": "healthy", "version": "1.0.0", "uptime_seconds": 210, "models_loaded": 2},
)

LIST_MODELS = OperationDocs(
    summary="List all models",
    description="""
    Returns every model that the server knows, loaded or not, with its state and its memory usage. It needs the
    permission `read_models`. A model that cannot be loaded says why in `error`.
    """,
    response_example={
        "models": [
            {
                "id": TEXT_MODEL,
                "name": TEXT_MODEL,
                "type": "safetensors",
                "size_bytes": 21_200_384,
                "loaded": True,
                "capabilities": ["text-generation"],
                "state": "loaded",
                "error": None,
                "parameters": 5_271_552,
                "base": None,
                "progress": None,
                "resident_bytes": 402_653_184,
                "cache_bytes": 4_194_304,
                "warning": None,
                "replica_states": None,
                **_LOADED,
            }
        ]
    },
)

LOAD_MODEL = OperationDocs(
    summary="Load a model",
    description="""
    Loads a model into a process of its own and answers when it is ready, with the options in effect. It needs the
    permission `manage_models`. Loading goes on if the client disconnects, and a model that is already loaded with the
    same options is returned at once. It answers 404 for an unknown model, 400 for options that the model does not
    support, 500 if loading fails and 503 if there is not enough memory. With `replicas` it is loaded once all of its
    processes are, and their memory counts together.
    """,
    request_examples={
        "Default options": {},
        "Less memory": {"context_size": 512, "quantization": "int8"},
        "Two replicas": {"replicas": 2},
        "Another engine": {"engine": "vllm", "engine_options": {"enforce_eager": True}},
    },
    response_example={"status": "loaded", "model_id": TEXT_MODEL, **_LOADED},
)

UNLOAD_MODEL = OperationDocs(
    summary="Unload a model",
    description="""
    Ends the model's process and answers when its memory is free. It needs the permission `manage_models`. Running
    requests finish first; with `force: true` they are cancelled. Unloading a model that is not loaded succeeds. It
    answers 404 for an unknown model.
    """,
    request_examples={"After running requests": {}, "At once": {"force": True}},
    response_example={"status": "unloaded", "model_id": TEXT_MODEL},
)

OPENAI_LIST_MODELS = OperationDocs(
    summary="List the models that can be loaded",
    description="""
    Returns all models that can be loaded, in the form of OpenAI's API. It needs the permission `read_models`. A
    model in the list may have to be loaded before it answers; `GET /models` has the state of each.
    """,
    response_example={"object": "list", "data": [_OPENAI_MODEL]},
)

OPENAI_MODEL = OperationDocs(
    summary="Get one model",
    description="""
    Returns one model in the form of OpenAI's API. It needs the permission `read_models`. It answers 404 for a model
    that does not exist or cannot be loaded, and lists the available ones in the message.
    """,
    response_example=_OPENAI_MODEL,
)
