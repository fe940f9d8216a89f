"""`reseal_secrets`: the former name of `reencrypt_secrets`."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Renamed to reencrypt_secrets."

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError("reseal_secrets was renamed: run reencrypt_secrets.", returncode=2)
