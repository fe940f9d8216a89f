"""Wire structs of /v1/models."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.fields import ModelId


class OpenAIModel(Struct):
    """A model in the form of OpenAI's API."""

    id: ModelId
    object: Annotated[Literal["model"], Meta(description="Kind of the object.")]
    created: Annotated[
        int, Meta(description="Time of the last change of its files in Unix seconds.", examples=[1795275625])
    ]
    owned_by: Annotated[str, Meta(description="Always `stoa`.", examples=["stoa"])]


class OpenAIModelList(Struct):
    """All models that can be loaded."""

    object: Annotated[Literal["list"], Meta(description="Kind of the object.")]
    data: Annotated[list[OpenAIModel], Meta(description="Models that can be loaded.")]
