"""What POST /metrics/custom takes and answers."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody

MetricType = Literal["gauge", "counter", "histogram"]


class CustomMetricRequest(RequestBody):
    """A number for a metric of the client's own."""

    name: Annotated[str, Meta(description="Not one that begins with `stoa_`.")]
    value: Annotated[float, Meta(description="A gauge becomes this, a counter grows by it, a histogram counts it.")]
    type: MetricType = "gauge"
    labels: dict[str, str] = {}


class CustomMetricResponse(Struct):
    """`value`: what the gauge or the counter is now; of a histogram what was counted."""

    status: str
    name: str
    type: MetricType
    value: float
    labels: dict[str, str]
