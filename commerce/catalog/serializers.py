"""The wire shapes of products, types and categories."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.attachments.records import AttachmentRecordSerializer
from commerce.catalog.models import Category, Product, ProductType, Variation
from commerce.shops.images import ImageReferenceField
from commerce.shops.records import ShopNameSerializer
from shared.api.money import MoneyField
from shared.api.relations import RelationsSerializer

LONGEST_DESCRIPTION = 20_000
MOST_CATEGORIES = 50
MOST_PICTURES = 20
MOST_VARIATIONS = 100
MOST_OPTIONS = 10
LARGEST_QUANTITY = 2**31 - 1
LANGUAGE = r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})?\Z"
LARGEST_ID = 2**63 - 1


class TypeSerializer(serializers.ModelSerializer[ProductType]):
    class Meta:
        model = ProductType
        fields = ["id", "name", "slug", "language", "created_at", "updated_at"]


class TypeNameSerializer(serializers.ModelSerializer[ProductType]):
    class Meta:
        model = ProductType
        fields = ["id", "name", "slug"]


class CategorySerializer(RelationsSerializer):
    type = TypeNameSerializer(read_only=True)

    class Meta:
        model = Category
        fields = ["id", "name", "slug", "language", "type_id", "type", "created_at", "updated_at"]
        relations = ["type"]


class CategoryNameSerializer(serializers.ModelSerializer[Category]):
    class Meta:
        model = Category
        fields = ["id", "name", "slug"]


class OptionSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=64)
    value = serializers.CharField(max_length=255)


class VariationSerializer(serializers.ModelSerializer[Variation]):
    price = MoneyField(currency_source="product.currency", read_only=True)
    sale_price = MoneyField(currency_source="product.currency", read_only=True, allow_null=True)
    options = OptionSerializer(many=True, read_only=True)
    in_stock = serializers.BooleanField(read_only=True)

    class Meta:
        model = Variation
        fields = ["id", "title", "options", "sku", "price", "sale_price", "quantity", "sold_quantity", "in_stock"]


class ProductSerializer(RelationsSerializer):
    """A product as everybody sees it."""

    price = MoneyField(read_only=True)
    sale_price = MoneyField(read_only=True, allow_null=True)
    min_price = MoneyField(read_only=True, allow_null=True)
    max_price = MoneyField(read_only=True, allow_null=True)
    in_stock = serializers.BooleanField(read_only=True)
    image = AttachmentRecordSerializer(read_only=True, allow_null=True)
    gallery = AttachmentRecordSerializer(many=True, read_only=True)
    ratings = serializers.SerializerMethodField(help_text="The average of the stars, of two decimal places.")
    total_reviews = serializers.IntegerField(read_only=True)
    type = TypeNameSerializer(read_only=True)
    shop = ShopNameSerializer(read_only=True, allow_null=True)
    categories = CategoryNameSerializer(many=True, read_only=True)
    variations = serializers.SerializerMethodField()

    class Meta:
        model = Product
        fields = [
            "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency",
            "sku", "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height",
            "width", "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count",
            "created_at", "updated_at", "type", "shop", "categories", "variations",
        ]  # fmt: skip
        relations = ["type", "shop", "categories", "variations"]

    def get_ratings(self, product: Product) -> float:
        return round(float(product.ratings), 2)

    @extend_schema_field(VariationSerializer(many=True))
    def get_variations(self, product: Product) -> Any:
        live = [variation for variation in product.variations.all() if variation.deleted_at is None]
        return VariationSerializer(live, many=True).data


class VariationWriteSerializer(serializers.Serializer[Any]):
    """A variation as a shop sends it; one with an `id` is changed."""

    id = serializers.IntegerField(min_value=1, max_value=LARGEST_ID, required=False, allow_null=True)
    title = serializers.CharField(max_length=255)
    options = OptionSerializer(many=True, required=False, max_length=MOST_OPTIONS)  # type: ignore[call-arg]
    sku = serializers.CharField(max_length=64, required=False, allow_blank=True)
    price = MoneyField()
    sale_price = MoneyField(required=False, allow_null=True)
    quantity = serializers.IntegerField(min_value=0, max_value=LARGEST_QUANTITY, required=False)


class ProductWriteSerializer(serializers.Serializer[Any]):
    """A product as a shop sends it. `image` and `gallery` name attachments by their `id`; other keys of theirs are not
    looked at."""

    name = serializers.CharField(max_length=255)
    description = serializers.CharField(max_length=LONGEST_DESCRIPTION, required=False, allow_blank=True)
    type_id = serializers.IntegerField(min_value=1, max_value=LARGEST_ID)
    product_type = serializers.ChoiceField(choices=Product.Kind.choices, required=False)
    status = serializers.ChoiceField(choices=Product.Status.choices, required=False)
    currency = serializers.RegexField(r"^[A-Z]{3}\Z", required=False)
    price = MoneyField(required=False)
    sale_price = MoneyField(required=False, allow_null=True)
    sku = serializers.CharField(max_length=64, required=False, allow_blank=True)
    quantity = serializers.IntegerField(min_value=0, max_value=LARGEST_QUANTITY, required=False)
    is_taxable = serializers.BooleanField(required=False)
    unit = serializers.CharField(max_length=64, required=False, allow_blank=True)
    height = serializers.CharField(max_length=32, required=False, allow_blank=True)
    width = serializers.CharField(max_length=32, required=False, allow_blank=True)
    length = serializers.CharField(max_length=32, required=False, allow_blank=True)
    image = ImageReferenceField(required=False, allow_null=True, source="image_id")
    gallery = serializers.ListField(
        child=ImageReferenceField(), required=False, max_length=MOST_PICTURES, source="gallery_ids"
    )
    categories = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=LARGEST_ID),
        required=False,
        max_length=MOST_CATEGORIES,
        source="category_ids",
    )
    variations = VariationWriteSerializer(many=True, required=False, max_length=MOST_VARIATIONS)  # type: ignore[call-arg]


class NewProductSerializer(ProductWriteSerializer):
    shop_id = serializers.IntegerField(min_value=1, max_value=LARGEST_ID)
    slug = serializers.SlugField(max_length=200, required=False)
    language = serializers.RegexField(LANGUAGE, max_length=16, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "price" not in attrs and attrs.get("product_type") != Product.Kind.VARIABLE:
            raise serializers.ValidationError({"price": ["A simple product has a price."]})
        return attrs


class TypeWriteSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255)


class NewTypeSerializer(TypeWriteSerializer):
    slug = serializers.SlugField(max_length=200, required=False)
    language = serializers.RegexField(LANGUAGE, max_length=16, required=False)


class CategoryWriteSerializer(TypeWriteSerializer):
    type_id = serializers.IntegerField(min_value=1, max_value=LARGEST_ID)


class NewCategorySerializer(NewTypeSerializer):
    type_id = serializers.IntegerField(min_value=1, max_value=LARGEST_ID)
