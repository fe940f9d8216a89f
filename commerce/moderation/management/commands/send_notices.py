"""`send_notices`: the letters about decisions that are due."""

from typing import Any

from django.core.management.base import BaseCommand

from commerce.moderation.notices.delivery import send_notices


class Command(BaseCommand):
    help = (
        "Sends the letters about moderators' decisions that can no longer be undone. Workers do this all the time; run "
        "it from a timer where no worker runs. Several at once do not send anything twice."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{send_notices()} letters went out.")
