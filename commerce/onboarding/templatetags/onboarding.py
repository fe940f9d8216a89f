"""The note of the first steps on the dashboard."""

from typing import Any

from django.template import Library
from django.utils import timezone

from commerce.onboarding.progress import STEP_COUNT, read_progress
from shared.accounts.roles import Role

register = Library()


@register.inclusion_tag("onboarding/_note.html")
def first_steps_note(user: Any) -> dict[str, Any]:
    """Show a store owner who cannot sell yet how far they are."""
    if user.role != Role.STORE_OWNER:
        return {}
    progress = read_progress(user, timezone.now())
    return {} if progress.may_sell else {"progress": progress, "step_count": STEP_COUNT}
