"""The parameters of a generation with their bounds, the same for every surface, and the one way into a wire struct."""

from typing import Annotated

from msgspec import Meta

MaxTokens = Annotated[int, Meta(ge=1, le=2**31 - 1, description="At most so many tokens; within the model's context.")]
Temperature = Annotated[float, Meta(ge=0, le=2, description="0 is greedy.")]
TopP = Annotated[float, Meta(ge=0, le=1, description="The smallest set of tokens with this probability; 1 is off.")]
TopK = Annotated[int, Meta(ge=0, le=1000, description="The k most probable tokens only; 0 is off.")]
RepeatPenalty = Annotated[float, Meta(gt=0, le=2, description="Looks at prompt and output; 1 means no penalty.")]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, description="The same seed gives the same text.")]
ChoiceCount = Annotated[int, Meta(ge=1, le=8, description="So many texts for the same prompt.")]
Timeout = Annotated[float, Meta(ge=1, le=600, description="Seconds until the last token; past it the code is TIMEOUT.")]
Priority = Annotated[int, Meta(ge=-10, le=10, description="Higher first; above 0 needs the right to manage models.")]
StopSequence = Annotated[str, Meta(min_length=1, max_length=256)]
StopSequences = Annotated[list[StopSequence], Meta(max_length=16, description="Generation ends before any of these.")]
