"""Making, changing and deleting addresses, so that a customer has at most one default of each type."""

from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.addresses.models import Address
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed


@transaction.atomic
def create_address(
    *, actor: User, customer_id: int, title: str, type: str, address: dict[str, Any], default: bool, now: datetime
) -> Address:
    """A new address of the actor's own; a super admin may name any customer. A default takes the place of the former.
    Raises ValidationFailed for somebody else's, or an unknown customer."""
    if customer_id != actor.pk and actor.role != Role.SUPER_ADMIN:
        raise ValidationFailed({"customer_id": ["You can only add addresses of your own."]})
    _take_turns(customer_id)
    row = Address(customer_id=customer_id, title=title, type=type, address=address, default=default, created_at=now)
    return _save(row, now)


@transaction.atomic
def update_address(*, customer: User, address_id: int, changes: dict[str, Any], now: datetime) -> Address:
    """Changes title, type, address or default, those that are named. Raises ApiError 404 unless the customer has it."""
    _take_turns(customer.pk)
    row = _own(customer, address_id)
    for name in ("title", "type", "address", "default"):
        setattr(row, name, changes.get(name, getattr(row, name)))
    return _save(row, now)


@transaction.atomic
def delete_address(*, customer: User, address_id: int) -> None:
    """Deletes one of the customer's addresses. Raises ApiError 404 for any other."""
    _take_turns(customer.pk)
    _own(customer, address_id).delete()


def _take_turns(customer_id: int) -> None:
    """Waits until no other transaction changes this customer's addresses: two new defaults at once would both clear
    the former one, and then collide."""
    if not User.objects.select_for_update(no_key=True).filter(pk=customer_id).exists():
        raise ValidationFailed({"customer_id": ["There is no customer with this id."]})


def _own(customer: User, address_id: int) -> Address:
    row = Address.objects.for_user(customer).filter(pk=address_id).first()
    if row is None:
        raise ApiError(404, "You have no address with this id.")
    return row


def _save(row: Address, now: datetime) -> Address:
    if row.default:
        former = Address.objects.filter(customer_id=row.customer_id, type=row.type, default=True).exclude(pk=row.pk)
        former.update(default=False, updated_at=now)
    row.updated_at = now
    row.save()
    return row
