"""Shops and the staff who work in them."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.slugs import validate_slug


class ShopQuerySet(models.QuerySet["Shop"]):
    def for_user(self, user: User) -> Self:
        """The shops that this user owns or works in, as long as their role is one for it."""
        if user.role == Role.STAFF:
            return self.filter(pk__in=ShopStaff.objects.filter(user=user).values("shop"))
        return self.filter(owner=user) if user.role in (Role.STORE_OWNER, Role.SUPER_ADMIN) else self.none()

    def managed_by(self, user: User) -> Self:
        """The shops whose goods this user may change: their own, and a super admin's are all."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.for_user(user)

    def visible_to(self, user: User | None) -> Self:
        """The active shops, and for the people of a shop their own. None is somebody who is not signed in."""
        if user is None:
            return self.filter(is_active=True)
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        own = Shop.objects.for_user(user)
        return self.filter(Q(is_active=True) | Q(pk__in=own.values("pk")))


class Shop(models.Model):
    """One vendor's shop. Only a super admin makes it active."""

    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="owned_shops")
    name = models.CharField(max_length=255, db_index=True)
    slug = models.SlugField(max_length=255, unique=True, validators=[validate_slug])
    description = models.TextField(blank=True)
    is_active = models.BooleanField(default=True)
    logo = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    cover_image = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    address = models.JSONField(default=dict, blank=True)
    settings = models.JSONField(default=dict, blank=True)
    # Kept by the orders' services, as counting ten million rows for a list of shops would not do.
    orders_count = models.PositiveBigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ShopQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["id"], condition=Q(is_active=False), name="commerce_shop_inactive")]

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


class InvitationQuerySet(models.QuerySet["StaffInvitation"]):
    def open(self, now: datetime) -> Self:
        """Those that can still be accepted."""
        return self.filter(accepted_at=None, expires_at__gt=now)


class StaffInvitation(models.Model):
    """An owner's offer of a place in a shop to whoever reads the mail of an address. One a shop and address; sent
    again it has a new nonce, so that only the last letter's link works."""

    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(db_index=True)
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    nonce = models.UUIDField(editable=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["shop", "email"], name="commerce_shops_one_invitation")]

    def __str__(self) -> str:
        return f"{self.email} to {self.shop}"
