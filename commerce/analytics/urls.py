"""Routes of analytics, under /api."""

from django.urls import path

from commerce.analytics.views import (
    AttributeSalesView,
    CategoryProductsView,
    CategorySalesView,
    OverviewView,
    TopCustomersView,
    TopProductsView,
    TopRatedView,
)

urlpatterns = [
    path("analytics", OverviewView.as_view()),
    path("category-wise-product", CategoryProductsView.as_view()),
    path("category-wise-product-sale", CategorySalesView.as_view()),
    path("attribute-wise-product-sale", AttributeSalesView.as_view()),
    path("top-rate-product", TopRatedView.as_view()),
    path("top-products", TopProductsView.as_view()),
    path("top-customers", TopCustomersView.as_view()),
]
