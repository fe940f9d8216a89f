"""Routes of the storefront."""

from django.urls import path

from commerce.storefront import views

urlpatterns = [
    path("shop", views.add_slash),
    path("shop/", views.products, name="storefront"),
    path("shop/products/<slug_or_id:slug>/", views.product, name="storefront_product"),
]
