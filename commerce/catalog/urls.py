"""Routes of the catalog, under /api."""

from django.urls import path

from commerce.catalog.low_stock_views import LowStockView
from commerce.catalog.shelf_views import CategoryListView, CategoryView, TypeListView, TypeView
from commerce.catalog.views import ProductListView, ProductView

urlpatterns = [
    path("products", ProductListView.as_view()),
    path("products/<slug:key>", ProductView.as_view()),
    path("low-stock-products", LowStockView.as_view()),
    path("categories", CategoryListView.as_view()),
    path("categories/<slug:key>", CategoryView.as_view()),
    path("types", TypeListView.as_view()),
    path("types/<slug:key>", TypeView.as_view()),
]
