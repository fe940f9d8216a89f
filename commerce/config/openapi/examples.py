"""Examples of the OpenAPI document: bodies recorded from real requests, and from them a value of each field.

`RECORD_EXAMPLES=1` with tests/commerce/config/test_schema.py records them anew. A test keeps them complete and in the
form of today's responses.
"""

import json
from pathlib import Path
from typing import Any

from shared.api.openapi import FieldExamples
from shared.api.openapi.field_examples import is_plain

RECORDED = Path(__file__).with_name("examples.json")
# Streams are not recorded.
EVENT_STREAM = """data: {"text": "The Velmo"}

data: {"text": " lamp glows."}

data: {"done": true, "description": "The Velmo lamp glows."}

"""
# Fields that are empty in all recorded bodies, or that no recorded request sends.
FIELD_EXAMPLES: dict[str, Any] = {
    "alt": "A blue teapot",
    "as_of": "2026-01-10T10:30:00.000000Z",
    "asOf": "2026-01-10T10:30:00.000000Z",
    "attempt_count": 1,
    "attribute_id": 4,
    "attribute_name": "Material",
    "attribute_value_id": 7,
    "averageOrderValue": 23.65,
    "avif": "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015/sizes/w320.avif",
    "cancelled_at": "2026-01-10T10:45:00.000000Z",
    "category_id": 3,
    "category_name": "Lamps",
    "code": "spam",
    "color": "#d97706",
    "comment": "Good value and well packed.",
    "contact": "+353 21 555 0100",
    "created_at": "2026-01-10T10:30:00.000000Z",
    "currency": "EUR",
    "customer_contact": "+353 21 555 0100",
    "customer_id": 5,
    "customer_name": "Grace Hopper",
    "decided_at": "2026-01-10T10:45:00.000000Z",
    "default": True,
    "depth": 1,
    "description": "A table lamp of oak and linen.",
    "draft_id": 5,
    "duration_ms": 160,
    "email": "grace@example.com",
    "email_verified_at": "2026-01-10T10:30:00.000000Z",
    "enabled": True,
    "ended_at": "2026-01-10T10:45:00.000000Z",
    "ends_at": "2026-01-17T10:30:00.000000Z",
    "error": "invalid_request",
    "expires_at": "2026-01-10T10:45:00.000000Z",
    "finished_at": "2026-01-10T10:30:00.000000Z",
    "from": "2026-01-01",
    "height": "42 cm",
    "id": 7,
    "in_stock": True,
    "is_active": True,
    "is_taxable": True,
    "language": "en",
    "length": "18 cm",
    "lifted_at": "2026-01-12T10:30:00.000000Z",
    "max_words": 80,
    "message": "Advertising.",
    "meta": "#d97706",
    "model_id": 9,
    "model_type": "Review",
    "name": "Velmo lamp",
    "newCustomers": 12,
    "next_attempt_at": "2026-01-10T10:30:00.000000Z",
    "note": "Seen before.",
    "number": 1,
    "order_id": 12,
    "original": "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015/teapot.jpg",
    "parent": 3,
    "parent_id": 3,
    "payment_gateway": "CASH_ON_DELIVERY",
    "pending": False,
    "placedRevenue": 6200.5,
    "previous_secret_until": "2026-01-11T10:30:00.000000Z",
    "product_count": 42,
    "product_id": 7,
    "prompt": "Introduce the Velmo lamp to our customers.",
    "quantity": 12,
    "ratings": 4.5,
    "reason": "It is advertising.",
    "returningCustomerRate": 0.4375,
    "serial": 1,
    "shop_id": 1,
    "shop_name": "Corner",
    "sku": "VL-100",
    "slug": "velmo-lamp",
    "sold_quantity": 3,
    "started_at": "2026-01-10T10:30:00.000000Z",
    "status": "open",
    "stream": False,
    "text": "Velmo lamp",
    "thumbnail": "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015/sizes/thumbnail.webp",
    "title": "Large",
    "to": "2026-01-31",
    "tone": "friendly",
    "total_orders": 3,
    "total_revenue": 129.5,
    "total_sales": 96,
    "totalOrders": 120,
    "totalRefunds": 99.5,
    "totalRevenue": 5400.5,
    "tracking_number": "S00F3A9C2D41B7E8650AA",
    "type_id": 2,
    "unit": "1 piece",
    "unless_changed": True,
    "updated_at": "2026-01-10T10:30:00.000000Z",
    "upload_id": "WzQyLCI5Zjg2ZDA4MTg4NGM3ZDY1OSIsInRlYXBvdC5qcGciXQ:1vHk2q:mZ4",
    "url": "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015/sizes/w320.webp",
    "user_id": 5,
    "valid": True,
    "validate": True,
    "value": "L",
    "value_id": 7,
    "variation_option_id": 5,
    "width": "18 cm",
    "x": 0.4,
    "y": 0.6,
}


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the recorded bodies to operations, and their values to fields. A drf-spectacular post-processing hook."""
    recorded: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    fields = FieldExamples(result["components"]["schemas"])
    for operations in result["paths"].values():
        for operation in operations.values():
            bodies = recorded.get(operation["operationId"], {})
            if "sent" in bodies:
                _add_body(operation.get("requestBody", {}), bodies["sent"], fields)
            for status, response in operation["responses"].items():
                if status.startswith("2") and "answered" in bodies:
                    _add_body(response, bodies["answered"], fields)
    for schema in result["components"]["schemas"].values():
        _add_fallback_examples(schema)
    return result


def _add_body(described: dict[str, Any], value: Any, fields: FieldExamples) -> None:
    for media_type, content in described.get("content", {}).items():
        if not {"example", "examples"} & content.keys():
            content["example"] = EVENT_STREAM if media_type == "text/event-stream" else value
        if media_type != "text/event-stream":
            fields.add(content["schema"], value)


def _add_fallback_examples(schema: dict[str, Any]) -> None:
    for name, field in schema.get("properties", {}).items():
        if name in FIELD_EXAMPLES and is_plain(field) and "enum" not in field:
            field.setdefault("example", FIELD_EXAMPLES[name])
