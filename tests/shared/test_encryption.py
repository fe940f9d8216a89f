"""Encryption of secrets at rest."""

import pytest
from pytest_django import Settings

from shared.encryption import DecryptionFailed, decrypt, encrypt

pytestmark = pytest.mark.no_database


def test_an_encrypted_secret_hides_its_text_and_decrypts():
    sealed = encrypt("whsec_abc")

    assert "whsec" not in sealed
    assert encrypt("whsec_abc") != sealed
    assert decrypt(sealed) == "whsec_abc"


def test_a_fallback_key_still_decrypts_secrets(settings: Settings):
    settings.SECRET_KEY = "the one before " * 4
    sealed = encrypt("whsec_abc")
    settings.SECRET_KEY = "the one after it " * 4

    with pytest.raises(DecryptionFailed):
        decrypt(sealed)
    settings.SECRET_KEY_FALLBACKS = ["the one before " * 4]
    assert decrypt(sealed) == "whsec_abc"
