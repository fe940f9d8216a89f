"""Models of attributes, such as color, and of their values."""

from typing import Any, Self

from django.db import models
from django.db.models import Aggregate, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce, Length

from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.slugs import SlugField

BYTES_PER_VALUE = 256  # of names, ids and quotes in JSON; a row in memory takes about six times as much


class CommaJoined(Aggregate):
    """The texts of a group, joined by commas."""

    function = "GROUP_CONCAT"
    template = "%(function)s(%(expressions)s, ',')"
    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, function="STRING_AGG", **extra)


class AttributeQuerySet(models.QuerySet["Attribute"]):
    def visible_to(self, user: User | None) -> Self:
        """Return the attributes of the shops that this user may see. `user` is None for an anonymous request."""
        return self.filter(shop__in=Shop.objects.visible_to(user))

    def owned_by(self, user: User) -> Self:
        """Return the attributes that this user may change: those of the shops they own, or all for a super admin."""
        return self.all() if user.role == Role.SUPER_ADMIN else self.filter(shop__owner=user)

    def with_unavailable_slugs(self, shop_id: int, language: str) -> Self:
        """Return the attributes whose slugs a new attribute must not have.

        These are all of its language, and those of other shops in any language: the same slug in another language
        would make it a translation of theirs.
        """
        return self.filter(Q(language=language) | ~Q(shop_id=shop_id))

    def with_response_size(self) -> Self:
        """Annotate `response_size`: bytes of JSON and of memory that an attribute with its values takes at most.

        A character has up to four bytes; the slug is made of the value.
        """
        of_value = Length("value") * 5 + Length("meta") * 4 + BYTES_PER_VALUE
        total = AttributeValue.objects.filter(attribute=OuterRef("pk")).order_by().values("attribute")
        size = Subquery(total.annotate(size=Sum(of_value)).values("size"))
        return self.annotate(response_size=Coalesce(size, 0) + BYTES_PER_VALUE)

    def for_response(self) -> Self:
        """Prefetch the values and annotate `languages`, the languages of all translations joined by commas."""
        translations = Attribute.objects.filter(slug=OuterRef("slug"), shop=OuterRef("shop"))
        joined = translations.order_by().values("slug").annotate(joined=CommaJoined("language")).values("joined")
        return self.annotate(languages=Subquery(joined)).prefetch_related("values")


class Attribute(models.Model):
    """An attribute in one language. A translation is another row of the shop with the same slug."""

    shop = models.ForeignKey(Shop, on_delete=models.CASCADE, related_name="attributes")
    name = models.CharField(max_length=255, db_index=True)
    slug = SlugField(max_length=255)
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
    """A possible value of an attribute. `meta` is free text of the client, such as a color code."""

    attribute = models.ForeignKey(Attribute, on_delete=models.CASCADE, related_name="values")
    value = models.CharField(max_length=255)
    meta = models.CharField(max_length=1000, blank=True)
    slug = SlugField(max_length=255, db_index=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.value
