"""Model of customers' addresses. A database constraint allows one default of each type."""

from typing import Self

from django.db import models
from django.db.models import Q

from commerce.addresses.validators import validate_address
from shared.accounts.models import User


class AddressQuerySet(models.QuerySet["Address"]):
    def for_user(self, user: User) -> Self:
        """Return the user's own addresses."""
        return self.filter(customer=user)


class Address(models.Model):
    """A billing or shipping address. `address` is a free-form object that is stored as the client sent it."""

    class Type(models.TextChoices):
        BILLING = "billing"
        SHIPPING = "shipping"

    customer = models.ForeignKey(User, on_delete=models.PROTECT, related_name="addresses")
    title = models.CharField(max_length=255)
    type = models.CharField(max_length=8, choices=Type)
    default = models.BooleanField(
        default=False, help_text="Takes the place of the customer's former default of this type."
    )
    address = models.JSONField(validators=[validate_address])
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    objects = AddressQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "addresses"
        constraints = [
            models.UniqueConstraint(
                fields=["customer", "type"], condition=Q(default=True), name="commerce_address_one_default"
            ),
            models.CheckConstraint(condition=Q(type__in=["billing", "shipping"]), name="commerce_address_type_known"),
            models.CheckConstraint(condition=~Q(address={}), name="commerce_address_not_empty"),
        ]

    def __str__(self) -> str:
        return self.title
