"""What a shop's record needs beside its row, and how other records show a shop."""

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from rest_framework import serializers

from commerce.attachments.records import AttachmentRecordSerializer
from commerce.catalog.models import Product
from commerce.shops.models import Shop


class ShopNameSerializer(serializers.ModelSerializer[Shop]):
    """A shop within another record. Prefetch `shop__logo`."""

    logo = AttachmentRecordSerializer(read_only=True, allow_null=True)

    class Meta:
        model = Shop
        fields = ["id", "name", "slug", "logo"]


def for_record(shops: "QuerySet[Shop]") -> "QuerySet[Shop]":
    """With their pictures, and `products_count`: the published products. Counted for the rows of a page only, by an
    index, where a join would count for every shop first."""
    published = Product.objects.live().filter(shop=OuterRef("pk"), status=Product.Status.PUBLISH)
    counted = published.order_by().values("shop").annotate(number=Count("pk")).values("number")
    return shops.select_related("logo", "cover_image").annotate(products_count=Coalesce(Subquery(counted), 0))
