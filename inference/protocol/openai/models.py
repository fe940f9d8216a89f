"""Models as OpenAI's clients know them."""

from typing import Literal

from msgspec import Struct


class OpenAIModel(Struct):
    """A model as OpenAI's clients know it. `created` is when its files were last changed, in Unix seconds."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAIModelList(Struct):
    """All models."""

    object: Literal["list"]
    data: list[OpenAIModel]
