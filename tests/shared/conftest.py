"""What the tests of the shared rooms need. They run under the settings of both projects, and speak a wire form of
their own, so that they say the same under both."""

import pytest
from pytest_django import Settings


@pytest.fixture
def neutral_errors(settings: Settings) -> None:
    settings.API_ERROR_BODY = "tests.shared.api.wire.error_body"
    settings.API_VALIDATION_STATUS = 422
