"""Attributes of a shop's products, such as colour, and the values that they may have."""

from typing import Any, Self

from django.db import models
from django.db.models import Aggregate, OuterRef, Q, Subquery

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role


class Joined(Aggregate):
    """The texts of a group with commas between them."""

    function = "GROUP_CONCAT"
    template = "%(function)s(%(expressions)s, ',')"
    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, function="STRING_AGG", **extra)


class AttributeQuerySet(models.QuerySet["Attribute"]):
    def visible_to(self, user: User | None) -> Self:
        """Those of the shops that this user, or somebody who is not signed in, may see."""
        return self.filter(shop__in=Shop.objects.visible_to(user))

    def owned_by(self, user: User) -> Self:
        """Those that this user may change: a super admin all, an owner those of their shops."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(shop__owner=user)

    def taking_slugs(self, shop_id: int, language: str) -> Self:
        """Those whose slugs a new attribute may not have: all of its language, and other shops' in any language, as
        it would else pass for a translation of theirs."""
        return self.filter(Q(language=language) | ~Q(shop_id=shop_id))

    def for_record(self) -> Self:
        """With their values, and their languages in `languages`, a text with commas."""
        alike = Attribute.objects.filter(slug=OuterRef("slug"), shop=OuterRef("shop"))
        joined = alike.order_by().values("slug").annotate(joined=Joined("language")).values("joined")
        return self.annotate(languages=Subquery(joined)).prefetch_related("values")


class Attribute(models.Model):
    """One attribute in one language. The same attribute in another language is a row with the same slug."""

    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="attributes")
    name = models.CharField(max_length=255, db_index=True)
    slug = models.SlugField(max_length=255)
    language = models.CharField(max_length=16, default="en")
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    objects = AttributeQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["slug", "language"], name="commerce_attribute_slug_language")]

    def __str__(self) -> str:
        return self.name


class AttributeValue(models.Model):
    """A value that the attribute may have. `meta` is the client's: a colour code, a size in inches."""

    attribute = models.ForeignKey(Attribute, on_delete=models.CASCADE, related_name="values")
    value = models.CharField(max_length=255)
    meta = models.CharField(max_length=1000, blank=True)
    slug = models.SlugField(max_length=255, db_index=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.value
