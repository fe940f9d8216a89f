"""Products, types and categories, for the people who run the platform."""

from django.contrib import admin
from unfold.admin import ModelAdmin

from commerce.catalog.models import Category, Product, ProductType


@admin.register(ProductType)
class ProductTypeAdmin(ModelAdmin):
    list_display = ["name", "slug", "language"]
    list_filter = ["language"]
    search_fields = ["name", "slug"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Category)
class CategoryAdmin(ModelAdmin):
    list_display = ["name", "type", "slug", "language"]
    list_select_related = ["type"]
    list_filter = ["language", "type"]
    search_fields = ["name", "slug"]
    autocomplete_fields = ["type"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Product)
class ProductAdmin(ModelAdmin):
    list_display = ["name", "shop", "type", "price", "currency", "quantity", "status"]
    list_select_related = ["shop", "type"]
    list_filter = ["status", "product_type", "language", "type"]
    search_fields = ["name", "slug", "shop__name"]
    autocomplete_fields = ["shop", "type", "categories"]
    prepopulated_fields = {"slug": ["name"]}
