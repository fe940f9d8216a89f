"""Checks of webhooks for an operator."""

from datetime import timedelta

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from shared.observability.checks import Finding
from shared.webhooks.models import Delivery, DeliveryState, Endpoint

FAILED_DELIVERIES_WINDOW = timedelta(days=1)


def check_webhooks(advice: str) -> list[Finding]:
    """Return whether deliveries failed for good lately, and which webhooks their receivers switched off.

    `advice` says how to send failed ones again.
    """
    since = timezone.now() - FAILED_DELIVERIES_WINDOW
    failed = Delivery.objects.filter(state=DeliveryState.FAILED, finished_at__gte=since).count()
    off = Endpoint.objects.filter(is_enabled=False, disabled_by=Endpoint.DisabledBy.RECEIVER).count()
    found = ngettext(
        "%(count)s delivery failed within the last 24 hours.",
        "%(count)s deliveries failed within the last 24 hours.",
        failed,
    )
    findings = [Finding(_("webhooks"), not failed, found % {"count": failed}, advice if failed else "")]
    if off:
        found = ngettext("%(count)s is off: its receiver is gone.", "%(count)s are off: their receivers are gone.", off)
        findings.append(Finding(_("webhooks"), True, found % {"count": off}))
    return findings
