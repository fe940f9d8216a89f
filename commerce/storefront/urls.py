"""Routes of the storefront."""

from django.urls import path

from commerce.storefront import views

urlpatterns = [
    path("shop", views.add_slash),
    path("shop/", views.products, name="storefront"),
    path("shop/products/<str:slug>/", views.product, name="storefront_product"),
]
