"""Secrets at rest."""

import pytest
from pytest_django import Settings

from inference.webhooks.sealing import SecretLost, seal, unseal


def test_a_sealed_secret_does_not_show_and_is_read_again():
    sealed = seal("whsec_abc")

    assert "whsec" not in sealed
    assert seal("whsec_abc") != sealed
    assert unseal(sealed) == "whsec_abc"


def test_after_a_change_of_the_secret_key_the_old_one_still_opens_what_it_sealed(settings: Settings):
    settings.SECRET_KEY = "the one before " * 4
    sealed = seal("whsec_abc")
    settings.SECRET_KEY = "the one after it " * 4

    with pytest.raises(SecretLost):
        unseal(sealed)
    settings.SECRET_KEY_FALLBACKS = ["the one before " * 4]
    assert unseal(sealed) == "whsec_abc"
