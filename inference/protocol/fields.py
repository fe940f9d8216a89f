"""Types of fields that several wire structs share, with the descriptions that the API documents show."""

from typing import Annotated

from msgspec import Meta

ModelId = Annotated[str, Meta(description="Id of the model, as `GET /models` lists it.", examples=["stoa-describer"])]
SYSTEM_FINGERPRINT = "stoa-1.0.0"  # a seed gives the same text with the same version

SystemFingerprint = Annotated[
    str, Meta(description="Version of the server, on which the text of a seed depends.", examples=[SYSTEM_FINGERPRINT])
]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
CreatedUnixTime = Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276179])]
ProcessingTime = Annotated[
    int, Meta(description="Time from the request's start to its end in milliseconds.", examples=[17])
]
ChoiceIndex = Annotated[int, Meta(description="Position of the choice, from 0.", examples=[0])]
GeneratedText = Annotated[str, Meta(description="Generated text.", examples=[" brushed steel."])]
Prompt = Annotated[
    str, Meta(description="Text to continue, without a chat template.", examples=["The kettle is made of"])
]
