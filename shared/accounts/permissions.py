"""DRF permission classes; they compose with `&`, `|` and `~`.

permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]
permission_classes = [HasPermission.of("manage_models")]
permission_classes = [ReadOnly | HasRole.of("SUPER_ADMIN")]
"""

from typing import Any, ClassVar, cast

from django.http import HttpRequest
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import Permission, Role


def signed_in_user(request: HttpRequest) -> User:
    """Return the user of a page that only signed-in users reach."""
    return cast(User, request.user)


class HasRole(BasePermission):
    """Permission of users of these roles, but not of keys with named permissions."""

    roles: ClassVar[frozenset[Role]] = frozenset()

    @classmethod
    def of(cls, *roles: str) -> Any:
        """Return a permission class for these roles. Raise ValueError for an unknown role."""
        return type("HasRole", (cls,), {"roles": frozenset(Role(role) for role in roles)})

    def has_permission(self, request: Request, view: Any) -> bool:
        principal = request.auth
        return isinstance(principal, Principal) and principal.has_full_role and principal.user.role in self.roles


class IsSignedIn(HasRole):
    """Permission of every signed-in user, whatever the role."""

    roles = frozenset(Role)


class HasPermission(BasePermission):
    """Permission of principals whose role and API key have this permission."""

    permission: ClassVar[Permission]

    @classmethod
    def of(cls, permission: str) -> Any:
        """Return a permission class for this permission. Raise ValueError for an unknown one."""
        return type("HasPermission", (cls,), {"permission": Permission(permission)})

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, Principal) and request.auth.has_permission(self.permission)


class ReadOnly(BasePermission):
    """Permission of everybody to read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.method in SAFE_METHODS


def current_user(request: Request) -> User | None:
    """Return the user of the request, or None for an anonymous request and for a key with named permissions."""
    return request.auth.user_with_full_role if isinstance(request.auth, Principal) else None
