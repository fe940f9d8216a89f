"""Roles and the permissions of each role, as data without requests or rows."""

from collections.abc import Mapping
from enum import StrEnum

from django.db.models import TextChoices


class Role(TextChoices):
    SUPER_ADMIN = "SUPER_ADMIN", "Super admin"
    MODERATOR = "MODERATOR", "Moderator"
    STORE_OWNER = "STORE_OWNER", "Store owner"
    STAFF = "STAFF", "Staff"
    CUSTOMER = "CUSTOMER", "Customer"


class Permission(StrEnum):
    """Permission of the model server. An API key may have fewer than its user."""

    RUN_INFERENCE = "run_inference"
    READ_MODELS = "read_models"
    MANAGE_MODELS = "manage_models"
    READ_METRICS = "read_metrics"
    WRITE_METRICS = "write_metrics"
    READ_TRACES = "read_traces"


_MODEL_USER_PERMISSIONS = frozenset({Permission.RUN_INFERENCE, Permission.READ_MODELS})

ROLE_PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.SUPER_ADMIN: frozenset(Permission),
    Role.MODERATOR: frozenset(),
    Role.STORE_OWNER: _MODEL_USER_PERMISSIONS,
    Role.STAFF: _MODEL_USER_PERMISSIONS,
    Role.CUSTOMER: frozenset(),
}

# The names that the shop's clients know. Every user is a customer too.
SHOP_PERMISSIONS: Mapping[Role, tuple[str, ...]] = {
    Role.SUPER_ADMIN: ("super_admin", "store_owner", "customer"),
    Role.MODERATOR: ("moderator", "customer"),
    Role.STORE_OWNER: ("store_owner", "customer"),
    Role.STAFF: ("staff", "customer"),
    Role.CUSTOMER: ("customer",),
}
