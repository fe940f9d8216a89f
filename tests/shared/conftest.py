"""Fixtures of the tests of shared, which run under the settings of both projects with one error body."""

import pytest
from pytest_django import Settings


@pytest.fixture
def neutral_errors(settings: Settings) -> None:
    settings.API_ERROR_BODY = "tests.shared.api.wire.error_body"
    settings.API_VALIDATION_STATUS = 422
