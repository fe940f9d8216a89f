"""Models of shops, their staff and staff invitations."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Cast, Coalesce, Length

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.slugs import SlugField, validate_slug

BYTES_PER_SHOP = 2_000  # without its texts


class ShopQuerySet(models.QuerySet["Shop"]):
    def for_user(self, user: User) -> Self:
        """Return the shops that this user owns or works in, if their role still allows it."""
        if user.role == Role.STAFF:
            return self.filter(pk__in=ShopStaff.objects.filter(user=user).values("shop"))
        return self.filter(owner=user) if user.role in (Role.STORE_OWNER, Role.SUPER_ADMIN) else self.none()

    def managed_by(self, user: User) -> Self:
        """Return the shops whose products and orders this user may change: their own, or all for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.for_user(user)

    def visible_to(self, user: User | None) -> Self:
        """Return active shops and the user's own. `user` is None for an anonymous request."""
        if user is None:
            return self.filter(is_active=True)
        if user.role == Role.SUPER_ADMIN:
            return self.all()
        own = Shop.objects.for_user(user)
        return self.filter(Q(is_active=True) | Q(pk__in=own.values("pk")))

    def with_response_size(self) -> Self:
        """Annotate `response_size`: an estimate of the bytes of JSON. A character has up to four."""
        texts = Length("name") + Length("description") + Length(Cast("settings", models.TextField()))
        return self.annotate(response_size=texts * 4 + BYTES_PER_SHOP)

    def for_response(self) -> Self:
        """Select the images and annotate `products_count`, the number of published products.

        The subquery counts by an index and only for the rows of a page; a join would count for every shop first.
        """
        product_model = Shop.products.rel.related_model  # catalog imports shops, not the other way round
        published = product_model._default_manager.filter(shop=OuterRef("pk"), status="publish", deleted_at=None)
        counts = published.order_by().values("shop").annotate(number=Count("pk")).values("number")
        return self.select_related("logo", "cover_image").annotate(products_count=Coalesce(Subquery(counts), 0))


class Shop(models.Model):
    """A vendor's shop. Only a super admin can activate it."""

    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="owned_shops")
    name = models.CharField(max_length=255, db_index=True)
    slug = SlugField(max_length=255, unique=True, validators=[validate_slug])
    description = models.TextField(blank=True)
    is_active = models.BooleanField(default=True)
    logo = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    cover_image = models.ForeignKey(Attachment, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    address = models.JSONField(default=dict, blank=True)
    settings = models.JSONField(default=dict, blank=True)
    # Denormalized by `services.increment_order_counts`: counting ten million orders for a list would be too slow.
    orders_count = models.PositiveBigIntegerField(default=0, editable=False)
    attachment_byte_limit = models.PositiveBigIntegerField(
        "bytes of attachments",
        null=True,
        blank=True,
        help_text="Size of all files of the staff together. Empty: the quota of the settings.",
    )
    attachment_count_limit = models.PositiveIntegerField(
        "number of attachments", null=True, blank=True, help_text="Empty: the quota of the settings."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ShopQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["id"], condition=Q(is_active=False), name="commerce_shop_inactive"),
            models.Index(fields=["created_at", "id"], name="commerce_shop_by_age"),
            models.Index(fields=["updated_at", "id"], name="commerce_shop_updated"),
            models.Index(fields=["orders_count", "id"], name="commerce_shop_by_orders"),
        ]

    def __str__(self) -> str:
        return self.name


class ShopStaff(models.Model):
    """A staff member's membership in the one shop they work for."""

    user = models.OneToOneField(User, on_delete=models.PROTECT, related_name="shop_place")
    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="staff")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        verbose_name = "staff member"

    def __str__(self) -> str:
        return f"{self.user} at {self.shop}"


class StaffInvitationQuerySet(models.QuerySet["StaffInvitation"]):
    def open(self, now: datetime) -> Self:
        """Return the invitations that can still be accepted."""
        return self.filter(accepted_at=None, expires_at__gt=now)

    def expired(self, now: datetime) -> Self:
        """Return the invitations that nobody has accepted in time."""
        return self.filter(accepted_at=None, expires_at__lte=now)


class StaffInvitation(models.Model):
    """An owner's invitation to join the staff of a shop, sent to an e-mail address.

    There is one for each shop and address. Sending it again changes the nonce, so that only the last link works.
    """

    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField(db_index=True)
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    nonce = models.UUIDField(editable=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)

    objects = StaffInvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["shop", "email"], name="commerce_shops_one_invitation")]

    def __str__(self) -> str:
        return f"{self.email} to {self.shop}"
