"""Serializers of products, variations, product types and categories."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from commerce.attachments.records import AttachmentRecordSerializer
from commerce.catalog.models import Category, Product, ProductType, Variation
from commerce.catalog.search.highlights import highlight
from commerce.catalog.search.services import search_result_of
from commerce.shops.fields import MAX_ID, ImageReferenceField
from commerce.shops.serializers import MAX_SLUG_LENGTH, ShopSummarySerializer
from shared.api.lists.relations import RelationsSerializer
from shared.api.money import MoneyField

MAX_DESCRIPTION_LENGTH = 20_000
MAX_CATEGORIES = 50
MAX_GALLERY_IMAGES = 20
MAX_VARIATIONS = 100
MAX_OPTIONS = 10
MAX_QUANTITY = 2**31 - 1
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


class CategorySerializer(RelationsSerializer):
    """A category of products."""

    type = TypeSummarySerializer(read_only=True, help_text="Product type of the category. Only with `with=type`.")

    class Meta:
        model = Category
        fields = ["id", "name", "slug", "language", "type_id", "type", "created_at", "updated_at"]
        relations = ["type"]
        extra_kwargs = NAME_FIELDS | {"type_id": {"help_text": "Id of the product type."}}


class CategorySummarySerializer(serializers.ModelSerializer[Category]):
    """A category inside another record."""

    class Meta:
        model = Category
        fields = ["id", "name", "slug"]
        extra_kwargs = NAME_FIELDS


class OptionSerializer(serializers.Serializer[Any]):
    """One option of a variation, such as size L."""

    name = serializers.CharField(max_length=64, help_text="Name of the option, as in Size.")
    value = serializers.CharField(max_length=255, help_text="Value of the option, as in L.")


class VariationSerializer(serializers.ModelSerializer[Variation]):
    """A variation of a variable product."""

    price = MoneyField(currency_source="product.currency", read_only=True, help_text="Regular price in major units.")
    sale_price = MoneyField(
        currency_source="product.currency", read_only=True, allow_null=True, help_text="Reduced price, or null."
    )
    options = OptionSerializer(many=True, read_only=True, help_text="Options that set this variation apart.")
    in_stock = serializers.BooleanField(read_only=True, help_text="Whether at least one piece is in stock.")

    class Meta:
        model = Variation
        fields = ["id", "title", "options", "sku", "price", "sale_price", "quantity", "sold_quantity", "in_stock"]
        extra_kwargs = {
            "title": {"help_text": "Name of the variation."},
            "sku": {"help_text": "Stock keeping unit."},
            "quantity": {"help_text": "Number of pieces in stock."},
            "sold_quantity": {"help_text": "Number of pieces sold."},
        }


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
    variations = serializers.SerializerMethodField(help_text="Variations. Only with `with=variations`.")
    related_products = RelatedProductSerializer(
        many=True,
        read_only=True,
        help_text="The newest products of the same type, at most 20. Only with `with=related_products`.",
    )

    class Meta:
        model = Product
        fields = [
            "id", "name", "slug", "description", "type_id", "price", "sale_price", "min_price", "max_price", "currency",
            "sku", "quantity", "sold_quantity", "in_stock", "is_taxable", "status", "product_type", "unit", "height",
            "width", "length", "image", "gallery", "language", "shop_id", "ratings", "total_reviews", "rating_count",
            "created_at", "updated_at", "type", "shop", "categories", "variations", "related_products",
        ]  # fmt: skip
        relations = ["type", "shop", "categories", "variations", "related_products"]
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

    @extend_schema_field(VariationSerializer(many=True))
    def get_variations(self, product: Product) -> Any:
        live = [variation for variation in product.variations.all() if variation.deleted_at is None]
        return VariationSerializer(live, many=True).data


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


class VariationWriteSerializer(serializers.Serializer[Any]):
    """A variation in a request. One with an `id` is changed, one without is new."""

    id = serializers.IntegerField(
        min_value=1,
        max_value=MAX_ID,
        required=False,
        allow_null=True,
        help_text="Id of a variation to keep; missing or null for a new one.",
    )
    title = serializers.CharField(max_length=255, help_text="Name of the variation.")
    options = OptionSerializer(  # type: ignore[call-arg]
        many=True, required=False, max_length=MAX_OPTIONS, help_text="Options that set this variation apart."
    )
    sku = serializers.CharField(max_length=64, required=False, allow_blank=True, help_text="Stock keeping unit.")
    price = MoneyField(help_text="Regular price in major units of the product's currency.")
    sale_price = MoneyField(required=False, allow_null=True, help_text="Reduced price, at most `price`, or null.")
    quantity = serializers.IntegerField(
        min_value=0, max_value=MAX_QUANTITY, required=False, help_text="Number of pieces in stock."
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
    variations = VariationWriteSerializer(  # type: ignore[call-arg]
        many=True,
        required=False,
        max_length=MAX_VARIATIONS,
        help_text="All variations of a variable product; those that are not in the list are deleted.",
    )


class NewProductSerializer(ProductWriteSerializer):
    shop_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of the shop that sells it.")
    slug = serializers.SlugField(
        max_length=MAX_SLUG_LENGTH,
        required=False,
        help_text="Name in URLs. Made from `name` if missing; gets a suffix if another product has it.",
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, required=False, help_text="Code of the language. Default: en."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "price" not in attrs and attrs.get("product_type") != Product.Kind.VARIABLE:
            raise serializers.ValidationError({"price": ["A simple product needs a price."]})
        return attrs


class TypeWriteSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=255, help_text="Name, in one language.")


class NewTypeSerializer(TypeWriteSerializer):
    slug = serializers.SlugField(
        max_length=MAX_SLUG_LENGTH,
        required=False,
        help_text="Name in URLs. Made from `name` if missing; gets a suffix if it is taken in this language.",
    )
    language = serializers.RegexField(
        LANGUAGE_PATTERN, max_length=16, required=False, help_text="Code of the language. Default: en."
    )


class CategoryWriteSerializer(TypeWriteSerializer):
    type_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of a product type.")


class NewCategorySerializer(NewTypeSerializer):
    type_id = serializers.IntegerField(min_value=1, max_value=MAX_ID, help_text="Id of a product type.")
