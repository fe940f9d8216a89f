"""Routes of addresses, under /api."""

from django.urls import path

from commerce.addresses.views import AddressViewSet

urlpatterns = [
    path("addresses", AddressViewSet.as_view({"get": "list", "post": "create"})),
    path("addresses/<id:pk>", AddressViewSet.as_view({"get": "retrieve", "put": "update", "delete": "destroy"})),
    path("address/<id:pk>", AddressViewSet.as_view({"delete": "destroy"})),  # as older clients spell it
]
