"""Parts of the OpenAPI documents that both projects share: deprecated routes, and examples of fields."""

from shared.api.openapi.deprecation import deprecation_headers
from shared.api.openapi.field_examples import FieldExamples

__all__ = ["FieldExamples", "deprecation_headers"]
