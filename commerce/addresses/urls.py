"""Routes of addresses, under /api."""

from django.urls import path

from commerce.addresses.views import AddressViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("addresses", AddressViewSet)

urlpatterns = [
    *router.urls,
    path("address/<id:pk>", AddressViewSet.as_view({"delete": "destroy"})),  # the path of older clients
]
