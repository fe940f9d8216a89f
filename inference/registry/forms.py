"""How an operator loads a model in the admin: the fields of POST /models/{id}/load."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from inference.engine import LoadOptions
from inference.protocol.native import LoadBody
from inference.protocol.parameters import parse


def _number(help_text: str, *, least: int = 1, most: int | None = None) -> forms.IntegerField:
    return forms.IntegerField(
        required=False, widget=UnfoldAdminIntegerFieldWidget, help_text=help_text, min_value=least, max_value=most
    )


def _choice(help_text: str, *choices: str) -> forms.ChoiceField:
    named = [(choice, choice) for choice in choices]
    return forms.ChoiceField(choices=named, required=False, widget=UnfoldAdminSelectWidget, help_text=help_text)


class LoadForm(forms.Form):
    """An empty field is the default."""

    context_size = _number("Prompt and completion, in tokens. Empty: 2048, or the model's own limit.")
    max_sequences = _number("Requests that run at once. Empty: 16.", most=256)
    batch_size = _number("Prompt tokens a step. Empty: 512.", most=32768)
    gpu_layers = _number("Decoder layers on the GPU. Empty: none.", least=0)
    quantization = _choice("int8: a quarter of the memory, faster, nearly the same text.", "none", "int8")
    dtype = _choice(
        "What weights are held in; auto is exact on the CPU, bfloat16 on a GPU.", "auto", "float32", "bfloat16"
    )

    def options(self) -> LoadOptions:
        """InvalidRequest names the field that is wrong."""
        given: dict[str, Any] = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return parse(given, LoadBody).options()
