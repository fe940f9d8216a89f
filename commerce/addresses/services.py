"""Writes to addresses. A customer has at most one default address of each type."""

from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.addresses.models import Address
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import NotFound, ValidationFailed

MAX_ADDRESSES_PER_CUSTOMER = 100


@transaction.atomic
def create_address(
    *, actor: User, customer_id: int, title: str, type: str, address: dict[str, Any], default: bool, now: datetime
) -> Address:
    """Create an address of the actor; a super admin may create one for any customer.

    A new default replaces the previous one of its type. Raises ValidationFailed for another or an unknown customer,
    and for more than MAX_ADDRESSES_PER_CUSTOMER addresses.
    """
    if customer_id != actor.pk and actor.role != Role.SUPER_ADMIN:
        raise ValidationFailed({"customer_id": ["Send your own id: you can only add addresses of your own."]})
    _lock_customer(customer_id)
    if Address.objects.filter(customer=customer_id).count() >= MAX_ADDRESSES_PER_CUSTOMER:
        message = f"A customer has at most {MAX_ADDRESSES_PER_CUSTOMER} addresses: 0 are left. Delete one first."
        raise ValidationFailed({"customer_id": [message]})
    row = Address(customer_id=customer_id, title=title, type=type, address=address, default=default, created_at=now)
    return _save(row, now)


@transaction.atomic
def update_address(*, customer: User, address_id: int, changes: dict[str, Any], now: datetime) -> Address:
    """Change those of title, type, address and default that are in `changes`.

    Raises NotFound for an address of another customer.
    """
    _lock_customer(customer.pk)
    row = _get_own_address(customer, address_id)
    for name in ("title", "type", "address", "default"):
        setattr(row, name, changes.get(name, getattr(row, name)))
    return _save(row, now)


@transaction.atomic
def delete_address(*, customer: User, address_id: int) -> None:
    """Delete an address of the customer. Raises NotFound for any other."""
    _lock_customer(customer.pk)
    _get_own_address(customer, address_id).delete()


def _lock_customer(customer_id: int) -> None:
    """Serialize the writes to one customer's addresses.

    Two new defaults at once would both clear the previous one and then violate the constraint.
    """
    if not User.objects.select_for_update(no_key=True).filter(pk=customer_id).exists():
        raise ValidationFailed({"customer_id": ["There is no customer with this id."]})


def _get_own_address(customer: User, address_id: int) -> Address:
    row = Address.objects.for_user(customer).filter(pk=address_id).first()
    if row is None:
        raise NotFound
    return row


def _save(row: Address, now: datetime) -> Address:
    if row.default:
        previous = Address.objects.filter(customer_id=row.customer_id, type=row.type, default=True).exclude(pk=row.pk)
        previous.update(default=False, updated_at=now)
    row.updated_at = now
    row.save()
    return row
