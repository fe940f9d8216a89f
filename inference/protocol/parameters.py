"""Types of the generation parameters, made from the engine's declarations: bounds, descriptions and examples.

The engine's `SAMPLING_PARAMETERS` and `REQUEST_PARAMETERS` are the one place where a bound is written down.
"""

from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from inference.engine import REQUEST_PARAMETERS, SAMPLING_PARAMETERS, Parameter

_TIMEOUT = REQUEST_PARAMETERS["timeout"]
# The engine takes any positive time; clients get the contract's minimum.
CLIENT_TIMEOUT = replace(_TIMEOUT, bounds=replace(_TIMEOUT.bounds, above=None, minimum=1))

# Parameters whose fields have the name and the type of the engine's on all surfaces.
CLIENT_PARAMETERS: dict[str, Parameter] = {
    name: parameter
    for name, parameter in {**SAMPLING_PARAMETERS, **REQUEST_PARAMETERS, "timeout": CLIENT_TIMEOUT}.items()
    if name not in ("logprobs", "constraint")
}

MaxTokens = Annotated[int, SAMPLING_PARAMETERS["max_tokens"].meta()]
MinTokens = Annotated[int, SAMPLING_PARAMETERS["min_tokens"].meta()]
Temperature = Annotated[float, SAMPLING_PARAMETERS["temperature"].meta()]
TopP = Annotated[float, SAMPLING_PARAMETERS["top_p"].meta()]
TopK = Annotated[int, SAMPLING_PARAMETERS["top_k"].meta()]
MinP = Annotated[float, SAMPLING_PARAMETERS["min_p"].meta()]
RepeatPenalty = Annotated[float, SAMPLING_PARAMETERS["repeat_penalty"].meta()]
PresencePenalty = Annotated[float, SAMPLING_PARAMETERS["presence_penalty"].meta()]
FrequencyPenalty = Annotated[float, SAMPLING_PARAMETERS["frequency_penalty"].meta()]
Seed = Annotated[int, SAMPLING_PARAMETERS["seed"].meta()]
IgnoreEos = Annotated[bool, SAMPLING_PARAMETERS["ignore_eos"].meta()]
StopSequence = Annotated[str, SAMPLING_PARAMETERS["stop"].item_meta()]
StopSequences = Annotated[list[StopSequence], SAMPLING_PARAMETERS["stop"].meta()]
StopTokenId = Annotated[int, SAMPLING_PARAMETERS["stop_token_ids"].item_meta()]
StopTokenIds = Annotated[list[StopTokenId], SAMPLING_PARAMETERS["stop_token_ids"].meta()]
LogitBiasKey = Annotated[str, Meta(pattern="^[0-9]{1,9}$")]
LogitBiasValue = Annotated[float, SAMPLING_PARAMETERS["logit_bias"].item_meta()]
LogitBias = Annotated[dict[LogitBiasKey, LogitBiasValue], SAMPLING_PARAMETERS["logit_bias"].meta()]
TopLogprobs = Annotated[
    int,
    SAMPLING_PARAMETERS["logprobs"].meta(),
    Meta(description="Number of most probable tokens to return beside each token. It needs `logprobs: true`."),
]
ChoiceCount = Annotated[int, REQUEST_PARAMETERS["n"].meta()]
Priority = Annotated[
    int,
    REQUEST_PARAMETERS["priority"].meta(),
    Meta(
        description="Scheduling priority: the highest runs first. A priority above 0 needs the permission "
        "`manage_models`."
    ),
]
Timeout = Annotated[float, CLIENT_TIMEOUT.meta()]

LogprobsFlag = Annotated[
    bool, Meta(description="Whether to return the log probability of each generated token.", examples=[True])
]
StreamFlag = Annotated[
    bool, Meta(description="Whether to send the text as a stream of events while it is generated.", examples=[False])
]
