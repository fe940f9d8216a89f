"""Command that sends the e-mails of due notices."""

from typing import Any

from django.core.management.base import BaseCommand

from commerce.moderation.notices.delivery import send_notices


class Command(BaseCommand):
    help = (
        "Send the e-mails about moderators' decisions that can no longer be undone. Workers do this periodically; run "
        "it from a timer where no worker runs. Several runs at once send each e-mail once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{send_notices()} e-mails sent.")
