"""Wire structs of Ollama's lists and descriptions of models."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.ollama.options import OllamaModelName

Digest = Annotated[
    str, Meta(description="Identifies the state of the model's files.", examples=["2c26b46b68ffc68ff99b453c1d304134"])
]
ModifiedAt = Annotated[
    str, Meta(description="Time of the last change of its files in ISO 8601.", examples=["2026-11-21T18:05:00Z"])
]


class OllamaModelDetails(Struct, kw_only=True):
    """Details of a model's files."""

    parent_model: Annotated[str, Meta(description="Always empty.", examples=[""])] = ""
    format: Annotated[str, Meta(description="`safetensors`, `gguf` or `remote`.", examples=["safetensors"])]
    family: Annotated[str, Meta(description="Always `stoa`.", examples=["stoa"])] = "stoa"
    families: Annotated[list[str], Meta(description="Always `stoa` alone.", examples=[["stoa"]])]
    parameter_size: Annotated[str, Meta(description="Number of parameters.", examples=["5.3M"])]
    quantization_level: Annotated[str, Meta(description="Form of the weights in the files.", examples=["F32"])]


class OllamaModel(Struct, kw_only=True):
    """A model that can be loaded."""

    name: OllamaModelName
    model: OllamaModelName
    modified_at: ModifiedAt
    size: Annotated[int, Meta(description="Bytes of the weights on disk.", examples=[21_200_384])]
    digest: Digest
    details: Annotated[OllamaModelDetails, Meta(description="Details of the files.")]


class OllamaModelList(Struct):
    """All models that can be loaded."""

    models: Annotated[list[OllamaModel], Meta(description="Models in the order of their ids.")]


class OllamaLoadedModel(Struct, kw_only=True):
    """A loaded model."""

    name: OllamaModelName
    model: OllamaModelName
    size: Annotated[int, Meta(description="Bytes of the weights and of the KV cache.", examples=[96_468_992])]
    digest: Digest
    details: Annotated[OllamaModelDetails, Meta(description="Details of the files.")]
    expires_at: Annotated[None, Meta(description="Always null: a loaded model stays until an operator unloads it.")] = (
        None
    )
    size_vram: Annotated[int, Meta(description="Bytes on the GPU; 0 on the CPU.", examples=[0])]
    context_length: Annotated[int, Meta(description="Context size in tokens.", examples=[1024])]


class OllamaLoadedModelList(Struct):
    """All loaded models."""

    models: Annotated[list[OllamaLoadedModel], Meta(description="Loaded models in the order of their ids.")]


class OllamaModelDescription(Struct, kw_only=True):
    """A model's description. Its template is not disclosed."""

    modelfile: Annotated[str, Meta(description="Always empty.", examples=[""])] = ""
    parameters: Annotated[str, Meta(description="Always empty.", examples=[""])] = ""
    template: Annotated[str, Meta(description="Always empty.", examples=[""])] = ""
    license: Annotated[str, Meta(description="Always empty.", examples=[""])] = ""
    modified_at: ModifiedAt
    details: Annotated[OllamaModelDetails, Meta(description="Details of the files.")]
    model_info: Annotated[
        dict[str, str | int],
        Meta(
            description="Architecture, number of parameters and context size.",
            examples=[{"general.architecture": "stoa", "stoa.context_length": 1024}],
        ),
    ]
    capabilities: Annotated[
        list[str], Meta(description="`completion` and `tools`, or `embedding`.", examples=[["completion", "tools"]])
    ]


class OllamaVersion(Struct):
    """The server's version."""

    version: Annotated[str, Meta(description="Version of the server.", examples=["1.0.0"])]


class OllamaErrorResponse(Struct):
    """The body of an error."""

    error: Annotated[
        str,
        Meta(
            description="What is wrong and what to do, in English.",
            examples=["`temperature` must be a number from 0 to 2, not 3."],
        ),
    ]
