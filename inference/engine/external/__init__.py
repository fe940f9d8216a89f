"""Engines of others, such as vLLM, behind the interface of ours: each is a server that a model process runs."""

from inference.engine.external.installation import (
    EngineInstallation,
    InstallationFailed,
    gpu_share,
    install_engine,
    layer_share,
    list_engines,
)
from inference.engine.external.kinds import (
    ENGINE_KINDS,
    ENGINE_NAMES,
    ENGINES_VARIABLE,
    SOCKET_VARIABLE,
    STOA,
    EngineKind,
    cache_bytes,
    check_engine_options,
)

__all__ = [
    "ENGINES_VARIABLE",
    "ENGINE_KINDS",
    "ENGINE_NAMES",
    "SOCKET_VARIABLE",
    "STOA",
    "EngineInstallation",
    "EngineKind",
    "InstallationFailed",
    "cache_bytes",
    "check_engine_options",
    "gpu_share",
    "install_engine",
    "layer_share",
    "list_engines",
]
