"""Wire structs of POST /v1/moderations."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.fields import ModelId

MAX_INPUTS = 32


class WireObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """An object that refuses unknown fields."""


class ModerationTextPart(WireObject, tag_field="type", tag="text"):
    """A part of an input with text."""

    text: Annotated[str, Meta(description="Text of the part.", examples=["What a lovely lamp."])]


class ModerationImageUrl(WireObject):
    """The address of an image."""

    url: Annotated[str, Meta(description="Not supported: models read text only.", examples=["data:image/png;"])]


class ModerationImagePart(WireObject, tag_field="type", tag="image_url"):
    """A part of an input with an image, which is not supported."""

    image_url: Annotated[ModerationImageUrl, Meta(description="Image, which is not supported.")]


ModerationPart = ModerationTextPart | ModerationImagePart


class ModerationsRequest(WireObject):
    """Texts to moderate."""

    input: Annotated[
        str | Annotated[list[str | ModerationPart], Meta(min_length=1)],
        Meta(
            description=f"A text, up to {MAX_INPUTS} texts, or the parts of one input.",
            examples=[["What a lovely lamp."]],
        ),
    ]
    model: ModelId | None = None

    def texts(self) -> tuple[str, ...]:
        """Return the texts. Parts are one text. Raise InvalidRequest for images, mixtures, and too many texts."""
        if isinstance(self.input, str):
            return (self.input,)
        texts = [item for item in self.input if isinstance(item, str)]
        if texts and len(texts) < len(self.input):
            raise InvalidRequest("`input` must be a text, an array of texts or an array of parts.", field="input")
        if len(texts) > MAX_INPUTS:
            raise InvalidRequest(f"`input` must have at most {MAX_INPUTS} texts, not {len(texts)}.", field="input")
        parts = []
        for index, item in enumerate(self.input):
            if isinstance(item, ModerationImagePart):
                raise InvalidRequest(
                    f"`input[{index}]` is an image, and the models of this server read text only. Send text.",
                    field=f"input[{index}]",
                )
            if isinstance(item, ModerationTextPart):
                parts.append(item.text)
        return tuple(texts) or ("\n".join(parts),)


class ModerationResult(Struct):
    """The categories of one text."""

    flagged: Annotated[bool, Meta(description="Whether a category is flagged.", examples=[False])]
    categories: Annotated[
        dict[str, bool],
        Meta(description="Whether each category is flagged: its score is 0.5 or more.", examples=[{"violence": False}]),
    ]
    category_scores: Annotated[
        dict[str, float],
        Meta(description="Probability of each category, from 0 to 1.", examples=[{"violence": 0.02}]),
    ]
    category_applied_input_types: Annotated[
        dict[str, list[str]],
        Meta(description="Kinds of input that each category was judged by.", examples=[{"violence": ["text"]}]),
    ]


class ModerationsResponse(Struct):
    """Results in the order of the texts."""

    id: Annotated[str, Meta(description="Id of the response.", examples=["modr-5b8d1f0c9a7e4d2b8c3f6a10"])]
    model: ModelId
    results: Annotated[list[ModerationResult], Meta(description="Results in the order of the texts.")]
