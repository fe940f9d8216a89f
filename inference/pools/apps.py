"""Pools as a Django app."""

from django.apps import AppConfig


class PoolsConfig(AppConfig):
    """App of the members of pools."""

    name = "inference.pools"
    label = "inference_pools"
    verbose_name = "Pools"

    def ready(self) -> None:
        from inference.pools.models import PoolMember
        from shared.webhooks.secrets import ENCRYPTED_TABLES, EncryptedTable

        ENCRYPTED_TABLES[PoolMember] = EncryptedTable(("api_key",), "pool members", "set their API keys again")
