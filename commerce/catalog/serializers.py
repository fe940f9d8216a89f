"""Serializers of products, product types, categories and tags."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.attachments.serializers import AttachmentRecordSerializer, suggest_alt
from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.catalog.search.highlights import highlight
from commerce.catalog.search.services import search_result_of
from commerce.catalog.variation_serializers import (
    ProductValueSerializer,
    ValueOrVariationSerializer,
    VariationOptionsSerializer,
    VariationSerializer,
)
from commerce.catalog.variations import MAX_QUANTITY, MAX_VALUES
from commerce.shops.fields import MAX_ID, ImageReferenceField
from commerce.shops.serializers import MAX_SLUG_LENGTH, ShopSummarySerializer
from shared.api.fields import IdField, SlugInputField
from shared.api.lists.relations import RelationsSerializer
from shared.api.money import MoneyField

MAX_DESCRIPTION_LENGTH = 20_000
MAX_CATEGORIES = 50
MAX_TAGS = 50
MAX_GALLERY_IMAGES = 20
LANGUAGE_PATTERN = r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})?\Z"

NAME_FIELDS = {
    "name": {"help_text": "Name, in one language."},
    "slug": {"help_text": "Name in URLs, unique within its language and never changed."},
    "language": {"help_text": "Code of the language."},
}


class TypeSerializer(serializers.ModelSerializer[ProductType]):
    """A product type."""

    class Meta:
        model = ProductType
        fields = ["id", "name", "slug", "language", "created_at", "updated_at"]
        extra_kwargs = NAME_FIELDS


class TypeSummarySerializer(serializers.ModelSerializer[ProductType]):
    """A product type inside another record."""

    class Meta:
        model = ProductType
        fields = ["id", "name", "slug"]
        extra_kwargs = NAME_FIELDS


CATEGORY_FIELDS = NAME_FIELDS | {
    "type_id": {"help_text": "Id of the product type."},
    "parent_id": {"help_text": "Id of the category above; null at the top."},
    "depth": {"help_text": "Number of categories above this one."},
}


class CategoryNodeSerializer(serializers.ModelSerializer[Category]):
    """A category below another one."""

    children = serializers.SerializerMethodField(help_text="Categories directly below this one.")

    class Meta:
        model = Category
        fields = ["id", "name", "slug", "language", "type_id", "parent_id", "depth", "children"]
        extra_kwargs = CATEGORY_FIELDS

    @extend_schema_field({"type": "array", "items": {"$ref": "#/components/schemas/CategoryNode"}, "example": []})
    def get_children(self, category: Category) -> Any:
        return [self.to_representation(child) for child in category.children.all()]


class CategorySummarySerializer(serializers.ModelSerializer[Category]):
    """A category inside another record."""

    class Meta:
        model = Category
        fields = ["id", "name", "slug"]
        extra_kwargs = NAME_FIELDS


class RelatedProductSerializer(serializers.ModelSerializer[Product]):
    """A product of the same type, inside another product."""

    price = MoneyField(read_only=True, help_text="Regular price; of a variable product its lowest price.")
    sale_price = MoneyField(read_only=True, allow_null=True, help_text="Reduced price, or null.")
    min_price = MoneyField(read_only=True, allow_null=True, help_text="Lowest price that a customer pays.")
    max_price = MoneyField(read_only=True, allow_null=True, help_text="Highest price that a customer pays.")
    image = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Main image, or null.")
    ratings = serializers.FloatField(read_only=True, help_text="Average rating; 0 without reviews.")

    class Meta:
        model = Product
        fields = [
            "id", "name", "slug", "price", "sale_price", "min_price", "max_price", "currency", "quantity", "unit",
            "product_type", "status", "image", "ratings", "type_id", "shop_id", "language",
        ]  # fmt: skip
        extra_kwargs = NAME_FIELDS | {
            "currency": {"help_text": "Currency of the prices, an ISO 4217 code."},
            "quantity": {"help_text": "Number of pieces in stock."},
            "unit": {"help_text": "Content of one piece, as in 500 g."},
            "product_type": {"help_text": "`simple` or `variable`."},
            "status": {"help_text": "Always `publish`."},
            "type_id": {"help_text": "Id of the product type."},
            "shop_id": {"help_text": "Id of the shop that sells the product."},
        }

    def to_representation(self, instance: Product) -> dict[str, Any]:
        """Return the record, made once for all products of a list that the product is related to."""
        record: dict[str, Any] | None = getattr(instance, "related_record", None)
        if record is None:
            record = instance.related_record = super().to_representation(instance)  # type: ignore[attr-defined]
        return record


class CategorySerializer(RelationsSerializer):
    """A category of products."""

    type = TypeSummarySerializer(read_only=True, help_text="Product type of the category. Only with `with=type`.")
    parent = CategorySummarySerializer(
        read_only=True, allow_null=True, help_text="Category above, or null. Only with `with=parent`."
    )
    children = CategoryNodeSerializer(many=True, read_only=True, help_text="Categories directly below this one.")

    class Meta:
        model = Category
        fields = [
            "id", "name", "slug", "language", "type_id", "type", "parent_id", "parent", "depth", "children",
            "created_at", "updated_at",
        ]  # fmt: skip
        relations = ["type", "parent"]
        extra_kwargs = CATEGORY_FIELDS


class TagSerializer(serializers.ModelSerializer[Tag]):
    """A tag of products."""

    class Meta:
        model = Tag
        fields = ["id", "name", "slug", "language", "created_at", "updated_at"]
        extra_kwargs = NAME_FIELDS


class TagSummarySerializer(serializers.ModelSerializer[Tag]):
    """A tag inside another record."""

    class Meta:
        model = Tag
        fields = ["id", "name", "slug"]
        extra_kwargs = NAME_FIELDS


class ProductSerializer(RelationsSerializer):
    """A product as everybody sees it. Prices are in major units of `currency`."""

    price = MoneyField(read_only=True, help_text="Regular price; of a variable product its lowest price.")
    sale_price = MoneyField(read_only=True, allow_null=True, help_text="Reduced price, or null.")
    min_price = MoneyField(read_only=True, allow_null=True, help_text="Lowest price that a customer pays.")
    max_price = MoneyField(read_only=True, allow_null=True, help_text="Highest price that a customer pays.")
    in_stock = serializers.BooleanField(read_only=True, help_text="Whether at least one piece is in stock.")
    image = AttachmentRecordSerializer(read_only=True, allow_null=True, help_text="Main image, or null.")
    gallery = AttachmentRecordSerializer(many=True, read_only=True, help_text="Further images.")
    ratings = serializers.SerializerMethodField(
        help_text="Average rating of the visible reviews, rounded to two decimal places; 0 without reviews."
    )
    total_reviews = serializers.IntegerField(read_only=True, min_value=0, help_text="Number of visible reviews.")
    type = TypeSummarySerializer(read_only=True, help_text="Product type. Only with `with=type`.")
    shop = ShopSummarySerializer(read_only=True, allow_null=True, help_text="Shop. Only with `with=shop`.")
    categories = CategorySummarySerializer(
        many=True, read_only=True, help_text="Categories. Only with `with=categories`."
    )
    tags = TagSummarySerializer(many=True, read_only=True, help_text="Tags. Only with `with=tags`.")
    related_products = RelatedProductSerializer(
        many=True,
        read_only=True,
        help_text="The newest products of the same type, at most 20. Only with `with=related_products`.",
    )
    variations = ProductValueSerializer(
        source="attribute_values",
        many=True,
        read_only=True,
        help_text="Attribute values in which the variations differ. Only with `with=variations`.",
    )
    variation_options = VariationSerializer(
        source="variations",
        many=True,
        read_only=True,
        help_text="Variations, each a combination of `variations`. Only with `with=variation_options`.",
    )

    class Meta:
        model = Product
        fields = [
            "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency",
            "sku", "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height",
            "width", "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count",
            "created_at", "updated_at", "type", "shop", "categories", "tags", "variations", "variation_options",
            "related_products",
        ]  # fmt: skip
        relations = ["type", "shop", "categories", "tags", "variations", "variation_options", "related_products"]
        extra_kwargs = {
            "name": {"help_text": "Name of the product."},
            "slug": {"help_text": "Name in URLs, unique within its language and never changed."},
            "description": {"help_text": "Description in plain text."},
            "type_id": {"help_text": "Id of the product type."},
            "currency": {"help_text": "Currency of the prices, an ISO 4217 code."},
            "sku": {"help_text": "Stock keeping unit."},
            "quantity": {"help_text": "Number of pieces in stock; of a variable product the sum of its variations."},
            "sold_quantity": {"help_text": "Number of pieces sold."},
            "is_taxable": {"help_text": "Whether sales tax is added to the price."},
            "status": {"help_text": "Only `publish` is visible to everybody."},
            "product_type": {"help_text": "`variable` if the product is sold in variations."},
            "unit": {"help_text": "Content of one piece, as in 500 g."},
            "height": {"help_text": "Height with its unit, as in 12 cm."},
            "width": {"help_text": "Width with its unit."},
            "length": {"help_text": "Length with its unit."},
            "language": {"help_text": "Code of the language."},
            "shop_id": {"help_text": "Id of the shop that sells the product."},
            "rating_count": {"help_text": "Number of ratings."},
        }

    def get_ratings(self, product: Product) -> float:
        return round(float(product.ratings), 2)

    def to_representation(self, instance: Product) -> dict[str, Any]:
        record: dict[str, Any] = super().to_representation(instance)
        variations = (variation.get("image") for variation in record.get("variation_options") or ())
        suggest_alt([record["image"], *record["gallery"], *variations], instance.name)
        return record


class HighlightSerializer(serializers.Serializer[Any]):
    """HTML of a product's texts with the words of the query in `<mark>`; everything else is escaped."""

    name = serializers.CharField(help_text="Name.")
    description = serializers.CharField(help_text="Part of the description around the first word that was found.")


class FoundProductSerializer(ProductSerializer):
    """A product that a search has found."""

    highlight = serializers.SerializerMethodField(
        help_text="HTML of the name and the description with the words of the query in `<mark>`."
    )

    class Meta(ProductSerializer.Meta):
        fields = [*ProductSerializer.Meta.fields, "highlight"]

    @extend_schema_field(HighlightSerializer)
    def get_highlight(self, product: Product) -> dict[str, str]:
        words = search_result_of(self.context["request"]).words
        return {"name": highlight(product.name, words), "description": highlight(product.description, words)}


class SuggestionSerializer(serializers.Serializer[Any]):
    """A product whose name continues what was typed."""

    text = serializers.CharField(source="name", help_text="Name of the product.")
    slug = serializers.CharField(help_text="Name in URLs.")


class SuggestionsSerializer(serializers.Serializer[Any]):
    """Suggestions for what was typed, at most ten."""

    data = SuggestionSerializer(  # type: ignore[assignment]
        many=True, help_text="Products, the best first."
    )


class ProductWriteSerializer(serializers.Serializer[Any]):
    """The fields of a product that its shop may change."""

    name = serializers.CharField(max_length=255, help_text="Name of the product.")
    description = serializers.CharField(
        max_length=MAX_DESCRIPTION_LENGTH, required=False, allow_blank=True, help_text="Description in plain text."
    )
    type_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of a product type.")
    product_type = serializers.ChoiceField(
        choices=Product.Kind.choices,
        required=False,
        help_text="`simple`, or `variable` for a product that is sold in variations.",
    )
    status = serializers.ChoiceField(
        choices=Product.Status.choices,
        required=False,
        help_text="Shops may set `draft`, `publish` and `under_review`. Super admins approve and reject.",
    )
    currency = serializers.RegexField(
        r"^[A-Z]{3}\Z", required=False, help_text="ISO 4217 code. A change needs new prices with it."
    )
    price = MoneyField(required=False, help_text="Regular price in major units. A new simple product needs one.")
    sale_price = MoneyField(required=False, allow_null=True, help_text="Reduced price, at most `price`, or null.")
    sku = serializers.CharField(max_length=64, required=False, allow_blank=True, help_text="Stock keeping unit.")
    quantity = serializers.IntegerField(
        min_value=0, max_value=MAX_QUANTITY, required=False, help_text="Number of pieces in stock."
    )
    is_taxable = serializers.BooleanField(required=False, help_text="Whether sales tax is added to the price.")
    unit = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="Content of one piece, as in 500 g."
    )
    height = serializers.CharField(
        max_length=32, required=False, allow_blank=True, help_text="Height with its unit, as in 12 cm."
    )
    width = serializers.CharField(max_length=32, required=False, allow_blank=True, help_text="Width with its unit.")
    length = serializers.CharField(max_length=32, required=False, allow_blank=True, help_text="Length with its unit.")
    image = ImageReferenceField(
        required=False, allow_null=True, source="image_id", help_text="Main image that you uploaded, or null."
    )
    gallery = serializers.ListField(
        child=ImageReferenceField(),
        required=False,
        max_length=MAX_GALLERY_IMAGES,
        source="gallery_ids",
        help_text="Further images that you uploaded; replaces the whole gallery.",
    )
    categories = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MAX_ID),
        required=False,
        max_length=MAX_CATEGORIES,
        source="category_ids",
        help_text="Ids of categories; replaces the whole list.",
    )
    tags = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MAX_ID),
        required=False,
        max_length=MAX_TAGS,
        source="tag_ids",
        help_text="Ids of tags; replaces the whole list.",
    )
    variations = ValueOrVariationSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        max_length=MAX_VALUES,
        help_text="All attribute values in which the variations of a variable product differ, as "
        '`[{"attribute_value_id": 7}]`. In the former form, all of its variations.',
    )
    variation_options = VariationOptionsSerializer(
        required=False, help_text="Variations of a variable product to change, add and delete."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Split `variations` into attribute values and variations in the former form."""
        items = attrs.get("variations", [])
        value_ids = [item["attribute_value_id"] for item in items if "attribute_value_id" in item]
        if value_ids and (len(value_ids) < len(items)):
            message = "Send either values, as in {'attribute_value_id': 7}, or whole variations, not both."
            raise serializers.ValidationError({"variations": [message]})
        if len(value_ids) < len(items) and "variation_options" in attrs:
            message = "Send whole variations in `variation_options`, and their values here."
            raise serializers.ValidationError({"variations": [message]})
        if "variations" in attrs and (value_ids or not items):
            attrs["attribute_value_ids"] = value_ids
            if value_ids or "variation_options" in attrs:
                del attrs["variations"]
        return attrs


class NewProductSerializer(ProductWriteSerializer):
    shop_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of the shop that sells it.")
    slug = SlugInputField(
        max_length=MAX_SLUG_LENGTH,
        help_text="Name in URLs. Made from `name` if missing; gets a suffix if another product has it.",
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, required=False, help_text="Code of the language. Default: en."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "price" not in attrs and attrs.get("product_type") != Product.Kind.VARIABLE:
            raise serializers.ValidationError({"price": ["A simple product needs a price."]})
        return super().validate(attrs)


class TypeWriteSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255, help_text="Name, in one language.")


class NewTypeSerializer(TypeWriteSerializer):
    slug = SlugInputField(
        max_length=MAX_SLUG_LENGTH,
        help_text="Name in URLs. Made from `name` if missing; gets a suffix if it is taken in this language.",
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, required=False, help_text="Code of the language. Default: en."
    )


class PlaceSerializer(serializers.Serializer[Any]):
    """Place of a category in the tree."""

    type_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of a product type.")
    parent_id = IdField(
        required=False,
        allow_null=True,
        help_text="Id of the category above, which has the same product type and language; null at the top.",
    )
    parent = IdField(  # type: ignore[assignment]
        required=False, allow_null=True, source="parent_id", help_text="The same as `parent_id`."
    )


class CategoryWriteSerializer(PlaceSerializer, TypeWriteSerializer):
    """The fields of a category that may change."""


class NewCategorySerializer(PlaceSerializer, NewTypeSerializer):
    """A new category."""


class TagWriteSerializer(TypeWriteSerializer):
    """The fields of a tag that may change."""


class NewTagSerializer(NewTypeSerializer):
    """A new tag."""
