"""Admin page of the search models: which model's vectors are searched, and how many products are still to embed."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from commerce.catalog.models import Product
from commerce.catalog.search.models import EmbeddingModel, ProductVector
from commerce.catalog.search.vectors.embedding import missing_count


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ModelAdmin):
    list_display = ["name", "state", "progress", "dimensions", "created_at", "completed_at", "failure"]
    list_display_links = None
    actions = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="State")
    def state(self, model: EmbeddingModel) -> str:
        if model.name != settings.SEARCH_MODEL:
            return "Replaced; searched until the new model is complete"
        if model.failed_at is not None:
            return "Waiting for the model server"
        return "In use" if missing_count(model.name) == 0 else "Embedding"

    @admin.display(description="Products")
    def progress(self, model: EmbeddingModel) -> str:
        total = Product.objects.live().count()
        if model.name == settings.SEARCH_MODEL:
            done = total - missing_count(model.name)
        else:
            done = ProductVector.objects.filter(model=model.name).count()
        return f"{done} of {total} ({100 * done // total if total else 100} %)"
