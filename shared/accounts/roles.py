"""What each role may do. Data only: nothing here knows a request or a row."""

from collections.abc import Mapping
from enum import StrEnum

from django.db.models import TextChoices


class Role(TextChoices):
    SUPER_ADMIN = "SUPER_ADMIN", "Super admin"
    STORE_OWNER = "STORE_OWNER", "Store owner"
    STAFF = "STAFF", "Staff"
    CUSTOMER = "CUSTOMER", "Customer"


class Permission(StrEnum):
    """What the model server asks for. An API key may carry fewer than its user has."""

    RUN_INFERENCE = "run_inference"
    READ_MODELS = "read_models"
    MANAGE_MODELS = "manage_models"
    READ_METRICS = "read_metrics"
    WRITE_METRICS = "write_metrics"
    READ_TRACES = "read_traces"


_USES_MODELS = frozenset({Permission.RUN_INFERENCE, Permission.READ_MODELS})

ROLE_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.SUPER_ADMIN: frozenset(Permission),
    Role.STORE_OWNER: _USES_MODELS,
    Role.STAFF: _USES_MODELS,
    Role.CUSTOMER: frozenset(),
}

# The shop's clients know roles by these names. Everyone is a customer too.
SHOP_PERMISSIONS: Mapping[Role, tuple[str, ...]] = {
    Role.SUPER_ADMIN: ("super_admin", "customer"),
    Role.STORE_OWNER: ("store_owner", "customer"),
    Role.STAFF: ("staff", "customer"),
    Role.CUSTOMER: ("customer",),
}
