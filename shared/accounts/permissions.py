"""DRF permission classes; they compose with `&`, `|` and `~`.

permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]
permission_classes = [HasPermission.of("manage_models")]
permission_classes = [ReadOnly | HasRole.of("SUPER_ADMIN")]
"""

from typing import Any, ClassVar

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import Permission, Role


class HasRole(BasePermission):
    """Lets users of these roles through; not a key that carries named permissions only."""

    roles: ClassVar[frozenset[Role]] = frozenset()

    @classmethod
    def of(cls, *roles: str) -> Any:
        """A permission class for these roles. Raises ValueError for a name that is no role."""
        return type("HasRole", (cls,), {"roles": frozenset(Role(role) for role in roles)})

    def has_permission(self, request: Request, view: Any) -> bool:
        principal = request.auth
        return isinstance(principal, Principal) and principal.has_full_role and principal.user.role in self.roles


class IsSignedIn(HasRole):
    """Lets everybody through who is signed in, whatever their role."""

    roles = frozenset(Role)


class HasPermission(BasePermission):
    """Lets those through whose role, and whose key, carry this permission."""

    permission: ClassVar[Permission]

    @classmethod
    def of(cls, permission: str) -> Any:
        """A permission class for this permission. Raises ValueError for a name that is none."""
        return type("HasPermission", (cls,), {"permission": Permission(permission)})

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, Principal) and request.auth.has_permission(self.permission)


class ReadOnly(BasePermission):
    """Lets everybody read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.method in SAFE_METHODS


def current_user(request: Request) -> User | None:
    """Who asks, where the answer depends on it; None for somebody who is not signed in, and for a key that carries
    named permissions only."""
    return request.auth.user_with_full_role if isinstance(request.auth, Principal) else None
