"""Settings of a shop whose search index follows no product."""

from commerce.config.settings.test import *  # noqa: F403
from commerce.config.settings.test import SERVER_PERIODIC_TASKS as _TASKS

SERVER_PERIODIC_TASKS = {name: seconds for name, seconds in _TASKS.items() if ".catalog.search." not in name}
