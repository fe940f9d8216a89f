"""Settings for tests: `base` with a fast password hasher and high limits; tests of a limit set it."""

from commerce.config.settings.base import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}  # noqa: F405
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True  # serve static files without collectstatic
if DATABASES["default"]["ENGINE"] == "shared.sqlite":  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}  # noqa: F405 a file, which threads share
REQUEST_LIMIT = CONTENT_WRITE_LIMIT = UPLOAD_LIMIT = DELETE_LIMIT = DESCRIPTIONS_PER_DAY = 100_000
MAINTENANCE_CHECK_SECONDS = float("inf")  # tests count queries; a change is seen all the same
MODERATION_SECOND_LOOK_INTERVAL = 0  # which decisions are sampled would depend on the tests before
PUBLIC_CACHE_SECONDS = 0  # a test's own writes are never committed, and a commit is what ends a cached response
