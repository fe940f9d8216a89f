"""Functions of moderation that reviews call.

Moderation imports reviews, so reviews cannot import moderation. `ModerationConfig.ready` registers the functions here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _not_registered(**arguments: Any) -> None:
    raise RuntimeError("Add commerce.moderation to INSTALLED_APPS: it registers the moderation hooks.")


@dataclass
class ModerationHooks:
    """The registered functions.

    `take_down` accepts the reports of a review or question (`model_type`, `model_id`, `moderator`, `now`).
    `withdraw_case` closes the case of content that its author deleted (`model_type`, `model_id`, `now`).
    `check_may_write` raises ApiError 403 for a sanctioned user (`user`, `now`).
    `find_hold` returns the rule that holds a new text, or None (`user`, `shop_id`, `text`, `now`).
    `hold` puts new hidden content into the queue (`content`, `rule`, `now`).
    `load_reports` sets `abusive_reports` on reviews or questions (`contents`, `user`).
    """

    take_down: Callable[..., Any] = _not_registered
    withdraw_case: Callable[..., None] = _not_registered
    load_reports: Callable[..., None] = _not_registered
    check_may_write: Callable[..., None] = _not_registered
    find_hold: Callable[..., Any] = _not_registered
    hold: Callable[..., Any] = _not_registered


hooks = ModerationHooks()
