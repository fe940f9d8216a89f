"""The admin form that loads a model. Its fields and bounds are those of the body of POST /models/{id}/load."""

from typing import Any

import msgspec
from django import forms
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from inference.engine import LoadOptions
from inference.protocol.native.models import LoadModelRequest
from inference.protocol.parsing import parse_struct


def _form_field(schema: dict[str, Any]) -> forms.Field:
    """Return the form field for a property of the request's JSON schema."""
    default = schema.get("default")
    default_text = f"Default: {default}." if default is not None else ""
    help_text = f"{schema.get('description', '')} {default_text}".strip()
    if schema.get("type") == "object":
        return forms.JSONField(required=False, widget=UnfoldAdminTextareaWidget, help_text=help_text)
    if "enum" in schema:
        choices = [(value, value) for value in schema["enum"]]
        widget = UnfoldAdminSelectWidget
        return forms.ChoiceField(choices=choices, initial=default, required=False, widget=widget, help_text=help_text)
    return forms.IntegerField(
        min_value=schema.get("minimum"),
        max_value=schema.get("maximum"),
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=help_text,
    )


class LoadForm(forms.Form):
    """The load options of a model. An empty field means its default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _, components = msgspec.json.schema_components([LoadModelRequest])
        properties = components[LoadModelRequest.__name__]["properties"]
        self.fields |= {name: _form_field(schema) for name, schema in properties.items()}

    def options(self) -> LoadOptions:
        """Return the options, or raise InvalidRequest, which names the wrong field."""
        values = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return parse_struct(values, LoadModelRequest).options()
