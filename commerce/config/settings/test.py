"""Tests: as `base`, with a cheap password hasher, and most limits out of the way; who tests a limit sets it."""

from commerce.config.settings.base import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}  # noqa: F405
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True  # static files from where they are: nothing was collected
if DATABASES["default"]["ENGINE"] == "shared.sqlite":  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}  # noqa: F405 a file, as threads know it
REQUEST_LIMIT = CONTENT_WRITE_LIMIT = UPLOAD_LIMIT = DELETE_LIMIT = DESCRIPTIONS_A_DAY = 100_000
