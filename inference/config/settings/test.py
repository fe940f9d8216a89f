"""Tests: as `base`, with a cheap password hasher; and limits out of the way; who tests a limit sets it."""

from inference.config.settings.base import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}  # noqa: F405
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True  # static files from where they are: nothing was collected
if DATABASES["default"]["ENGINE"] == "shared.sqlite":  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}  # noqa: F405 a file, as threads know it
PACKAGED_MODELS = {}  # a test that needs one sets it: the catalog has the models that a test puts there
REQUEST_LIMIT = ADDRESS_REQUEST_LIMIT = KEY_REQUEST_LIMIT = USER_REQUEST_LIMIT = 100_000
KEY_TOKEN_LIMIT = USER_TOKEN_LIMIT = 1_000_000_000
KEY_CONCURRENCY_LIMIT = USER_CONCURRENCY_LIMIT = 10_000
