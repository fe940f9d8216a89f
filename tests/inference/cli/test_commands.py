"""The options of commands."""

import inspect

import msgspec

from inference.cli.commands import models
from inference.protocol.native.models import LoadModelRequest


def test_models_load_has_an_option_for_every_field_of_the_request():
    request_fields = {field.name for field in msgspec.structs.fields(LoadModelRequest)}
    assert {*inspect.signature(models.load).parameters} - {"model", "as_json"} == request_fields
