"""Admin pages of products, product types and categories."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.attachments.serializers import attachment_record
from commerce.catalog import services, taxonomy
from commerce.catalog.admin_money import MoneyForm, format_money
from commerce.catalog.models import Category, Product, ProductType, Tag, Variation
from commerce.catalog.search.services import search_all_languages
from commerce.catalog.variations import delete_value_links, set_variations
from commerce.webhooks.events import announce_product_updates
from shared.api.admin.base import LanguageListFilter, LargeTableAdmin
from shared.api.errors import ValidationFailed
from shared.api.lists.search import MAX_SEARCH_LENGTH

MAX_DESCRIPTION_PRODUCTS = 200  # one more is passed on, so that the next page reports the limit


class DeletedFilter(admin.SimpleListFilter):
    title = "deletion"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("no", _("Not deleted")), ("yes", _("Deleted"))]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        return queryset.filter(deleted_at__isnull=self.value() == "no") if self.value() in ("no", "yes") else queryset


@admin.register(ProductType)
class ProductTypeAdmin(LargeTableAdmin):
    list_display = ["name", "slug", "language"]
    list_filter = [LanguageListFilter]
    search_fields = ["slug"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Tag)
class TagAdmin(LargeTableAdmin):
    list_display = ["name", "slug", "language"]
    list_filter = [LanguageListFilter]
    search_fields = ["slug"]
    prepopulated_fields = {"slug": ["name"]}


class CategoryForm(forms.ModelForm):  # type: ignore[type-arg]
    def _post_clean(self) -> None:
        """Set the depth, once the instance has the values of the page."""
        super()._post_clean()  # type: ignore[misc]
        if self.errors:
            return
        try:
            taxonomy.place_category(self.instance)
        except ValidationFailed as error:
            for field, messages in (error.problem.errors or {}).items():
                self.add_error("type" if field == "type_id" else field, messages)


@admin.register(Category)
class CategoryAdmin(LargeTableAdmin):
    form = CategoryForm
    list_display = ["name", "type", "parent", "slug", "language"]
    list_select_related = ["type", "parent"]
    list_filter = [LanguageListFilter, ["type", AutocompleteSelectFilter]]
    search_fields = ["slug", "type__slug"]
    autocomplete_fields = ["type", "parent"]
    prepopulated_fields = {"slug": ["name"]}

    def save_model(self, request: HttpRequest, obj: Category, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        taxonomy.update_depths_below(obj)


class ProductForm(MoneyForm):
    money_fields = ("price", "sale_price")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "quantity" in self.fields:
            # Orders change the quantity while the page is open: save it only if it differs from what the page showed.
            self.fields["quantity"].show_hidden_initial = True

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        price, sale_price = cleaned.get("price"), cleaned.get("sale_price")
        if price is not None and sale_price is not None and sale_price > price:
            self.add_error("sale_price", "The sale price must not be above the price.")
        currency = self.get_currency()
        if cleaned.get("currency", currency) != currency and self.instance.lowest_variation_price is not None:
            self.add_error("currency", f"The variations are priced in {currency}: delete them first.")
        return cleaned


class VariationForm(ProductForm):
    is_deleted = forms.BooleanField(required=False, label="Delete", help_text="Orders that contain it keep it.")

    def __init__(self, *args: Any, product: Product, **kwargs: Any) -> None:
        self._product = product
        super().__init__(*args, **kwargs)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.instance.deleted_at = timezone.now() if cleaned.get("is_deleted") else None
        return cleaned

    def get_currency(self) -> str:
        return self._product.currency


class VariationFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        """Pass the page's product, which may be new and has the page's currency after validation."""
        return {**super().get_form_kwargs(index), "product": self.instance}


class VariationInline(TabularInline):
    model = Variation
    form = VariationForm
    formset = VariationFormSet
    fields = ["title", "sku", "price", "sale_price", "quantity", "sold_quantity", "is_deleted"]
    readonly_fields = ["sold_quantity"]
    extra = 0
    can_delete = False

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Variation]":
        rows: QuerySet[Variation] = super().get_queryset(request)
        return rows.filter(deleted_at=None).select_related("product")


def _save_changes(form: Any) -> None:
    """Save only the columns that were changed on the page: an order may have changed others meanwhile."""
    columns = {field.name for field in form.instance._meta.concrete_fields}
    changed = columns.intersection(form.changed_data) | {"updated_at"}
    if "currency" in changed:  # the same amounts are other minor units
        changed |= set(form.money_fields)
    form.instance.save(update_fields=changed | ({"deleted_at"} if "is_deleted" in form.changed_data else set()))


@admin.register(Product)
class ProductAdmin(LargeTableAdmin):
    form = ProductForm
    list_display = [
        "thumbnail",
        "name",
        "shop",
        "type",
        "min_price_display",
        "quantity",
        "stars",
        "status",
        "deleted_at",
    ]
    list_display_links = ["name"]
    ordering = ["-id"]
    list_select_related = ["shop", "type", "image"]
    sortable_by = ["name"]
    list_filter = [
        "status",
        "product_type",
        LanguageListFilter,
        DeletedFilter,
        ["shop", AutocompleteSelectFilter],
        ["type", AutocompleteSelectFilter],
    ]
    search_fields = ["slug", "name", "sku", "shop__slug"]
    autocomplete_fields = ["shop", "type", "categories", "tags", "image", "gallery"]
    prepopulated_fields = {"slug": ["name"]}
    readonly_fields = ["thumbnail", "sold_quantity", "stars", "rating_count", "created_at", "updated_at", "deleted_at"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "language", "shop", "status", "description"]}),
        ("Category", {"fields": ["type", "categories", "tags"]}),
        ("Price and stock", {"fields": [
            "product_type", ("price", "sale_price", "currency"), "is_taxable", ("sku", "quantity", "unit"),
        ]}),
        ("Dimensions", {"fields": [("height", "width", "length")]}),
        ("Images", {"fields": ["thumbnail", "image", "gallery"]}),
        ("Statistics", {"fields": [("sold_quantity", "stars", "rating_count"), ("created_at", "updated_at")]}),
    ]  # fmt: skip
    inlines = [VariationInline]
    actions = ["publish", "reject", "describe", "delete_from_lists"]
    search_help_text = "Words of a product, or the start of a name, SKU or shop, or a product's id"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: orders refer to products. The `delete_from_lists` action removes them from every list."""
        return False

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Any]", search_term: str
    ) -> "tuple[QuerySet[Any], bool]":
        """Add what a shopper would find, in any language, to the products that begin with the search term."""
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        if search_term.strip():
            text, products = search_term[:MAX_SEARCH_LENGTH], Product.objects.live()
            found |= queryset.filter(pk__in=search_all_languages(text=text, products=products))
        return found, may_have_duplicates

    @admin.display(description="Image", empty_value="")
    def thumbnail(self, product: Product) -> str | None:
        if product.image is None:
            return None
        url = attachment_record(product.image).get("thumbnail", "")
        return format_html('<img src="{}" alt="" style="height: 3rem; border-radius: 4px">', url)

    @admin.display(description="Price", ordering="min_price")
    def min_price_display(self, product: Product) -> str:
        return format_money(product.min_price, product.currency)

    @admin.display(description="Rating", ordering="ratings")
    def stars(self, product: Product) -> str:
        return f"{product.ratings:.2f}" if product.rating_count else "-"

    def save_model(self, request: HttpRequest, obj: Product, form: Any, change: bool) -> None:
        if change:
            _save_changes(form)
        else:
            obj.save()

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        formset.new_objects = [variation.save() for variation in formset.extra_forms if variation.has_changed()]
        changed = [variation for variation in formset.initial_forms if variation.has_changed()]
        for variation in changed:
            _save_changes(variation)
        formset.changed_objects = [(variation.instance, variation.changed_data) for variation in changed]
        formset.deleted_objects = []

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        product = Product.objects.select_for_update().get(pk=form.instance.pk)
        is_variable = product.product_type == Product.Kind.VARIABLE
        if is_variable or product.lowest_variation_price is not None or product.value_links.exists():
            set_variations(product=product, items=None if is_variable else [], now=timezone.now())
            if not is_variable:
                delete_value_links(product=product)
        if change:
            announce_product_updates([product], now=timezone.now())

    @admin.action(description="Publish")
    def publish(self, request: HttpRequest, products: "QuerySet[Product]") -> None:
        self._set_status(request, products, Product.Status.PUBLISH)

    @admin.action(description="Reject: take off sale until the shop has corrected it")
    def reject(self, request: HttpRequest, products: "QuerySet[Product]") -> None:
        self._set_status(request, products, Product.Status.REJECTED)

    @admin.action(description=_("Write descriptions"))
    def describe(self, request: HttpRequest, products: "QuerySet[Product]") -> HttpResponse:
        """Redirect to the page that asks for tone, length and language."""
        product_ids = products.filter(deleted_at=None).values_list("pk", flat=True)[: MAX_DESCRIPTION_PRODUCTS + 1]
        query = urlencode([("product", product_id) for product_id in product_ids])
        return HttpResponseRedirect(f"{reverse('admin:commerce_descriptions_new_job')}?{query}")

    @admin.action(description="Delete: remove from every list; orders keep them")
    def delete_from_lists(self, request: HttpRequest, products: "QuerySet[Product]") -> None:
        for product in products.filter(deleted_at=None):
            services.delete_product(actor=request.user, product_id=product.pk, now=timezone.now())  # type: ignore[arg-type]

    def _set_status(self, request: HttpRequest, products: "QuerySet[Product]", status: str) -> None:
        for product in products.filter(deleted_at=None):
            services.change_product(
                actor=request.user,  # type: ignore[arg-type]
                product_id=product.pk,
                values={"status": status},
                now=timezone.now(),
            )
