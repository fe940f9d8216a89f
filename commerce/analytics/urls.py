"""Routes of analytics, under /api."""

from django.urls import path

from commerce.analytics.views import CategoryProductsView, CategorySalesView, OverviewView, TopRatedView

urlpatterns = [
    path("analytics", OverviewView.as_view()),
    path("category-wise-product", CategoryProductsView.as_view()),
    path("category-wise-product-sale", CategorySalesView.as_view()),
    path("top-rate-product", TopRatedView.as_view()),
]
