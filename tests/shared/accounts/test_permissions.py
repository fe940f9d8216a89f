"""Permission classes: the status of each route for each identity, as one table."""

import pytest
from django.test import Client
from django.utils import timezone

from shared.accounts.permissions import HasPermission, HasRole
from shared.accounts.roles import ROLE_PERMISSIONS, SHOP_PERMISSIONS, Permission, Role
from shared.accounts.services import create_api_key
from tests.shared.accounts.conftest import make_user

#            customer, staff, owner, admin, staff's key that only reads models, admin's key that only manages them
STATUSES = {
    "/who": (200, 200, 200, 200, 200, 200),
    "/owners": (403, 200, 200, 403, 403, 403),
    "/managers": (403, 403, 403, 200, 403, 200),
    "/either": (403, 200, 403, 200, 403, 200),
    "/not-staff": (403, 403, 200, 200, 403, 403),
}
IDENTITIES: list[tuple[Role, list[str] | None]] = [
    (Role.CUSTOMER, None),
    (Role.STAFF, None),
    (Role.STORE_OWNER, None),
    (Role.SUPER_ADMIN, None),
    (Role.STAFF, ["read_models"]),
    (Role.SUPER_ADMIN, ["manage_models"]),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "statuses"), STATUSES.items())
def test_each_identity_gets_the_status_of_its_role_and_key(path: str, statuses: tuple[int, ...]) -> None:
    assert Client().get(path).status_code == 401
    found = []
    for number, (role, permissions) in enumerate(IDENTITIES):
        user = make_user(role, f"user{number}@example.com", password=None)
        raw = create_api_key(user=user, name="k", permissions=permissions, now=timezone.now())[1]
        found.append(Client().get(path, headers={"X-API-Key": raw}).status_code)
    assert tuple(found) == statuses


def test_every_role_has_its_permissions() -> None:
    uses = {Permission.RUN_INFERENCE, Permission.READ_MODELS}
    assert {
        Role.SUPER_ADMIN: set(Permission),
        Role.MODERATOR: set(),
        Role.STORE_OWNER: uses,
        Role.STAFF: uses,
        Role.CUSTOMER: set(),
    } == ROLE_PERMISSIONS
    assert set(SHOP_PERMISSIONS) == set(Role)


def test_a_misspelt_role_or_permission_raises_at_class_definition() -> None:
    with pytest.raises(ValueError, match="STORE-OWNER"):
        HasRole.of("STORE-OWNER")
    with pytest.raises(ValueError, match="fly"):
        HasPermission.of("fly")
