"""Shops and the staff who work in them."""

from typing import Self

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class ShopQuerySet(models.QuerySet["Shop"]):
    def for_user(self, user: User) -> Self:
        """The shops that this user owns or works in."""
        return self.filter(Q(owner=user) | Q(staff__user=user)).distinct()


class Shop(models.Model):
    """One vendor's shop."""

    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="owned_shops")
    name = models.CharField(max_length=255)
    slug = models.SlugField(max_length=255, unique=True)
    description = models.TextField(blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ShopQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class ShopStaff(models.Model):
    """A staff member's place: the one shop they work for."""

    user = models.OneToOneField(User, on_delete=models.PROTECT, related_name="shop_place")
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="staff")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        verbose_name = "staff member"

    def __str__(self) -> str:
        return f"{self.user} at {self.shop}"
