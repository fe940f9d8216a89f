"""Wire structs of POST /metrics/custom."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from inference.protocol.native.body import RequestBody

MetricType = Annotated[
    Literal["gauge", "counter", "histogram"],
    Meta(description="A gauge is set, a counter grows by the value, a histogram observes the value."),
]
MetricName = Annotated[
    str,
    Meta(
        description="Name of the metric: letters, digits, `_` and `:`, not a digit first, and not with the prefix "
        "`stoa_`.",
        examples=["carts_open"],
    ),
]
MetricLabels = Annotated[
    dict[str, str], Meta(description="Labels of the series with their values.", examples=[{"shop": "north"}])
]


class CustomMetricRequest(RequestBody):
    """A value of a client's own metric."""

    name: MetricName
    value: Annotated[
        float,
        Meta(
            description="Value to set, add or observe. A counter takes no negative value.",
            examples=[12],
            extra_json_schema={"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
        ),
    ]
    type: MetricType = "gauge"
    labels: MetricLabels = {}


class CustomMetricResponse(Struct):
    """The metric after the value was recorded."""

    status: Annotated[str, Meta(description="Always `ok`.", examples=["ok"])]
    name: MetricName
    type: MetricType
    value: Annotated[
        float, Meta(description="Present value of the gauge or counter, or the observed value.", examples=[12])
    ]
    labels: MetricLabels
