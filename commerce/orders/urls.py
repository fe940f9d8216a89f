"""Routes of orders and refunds, under /api."""

from django.urls import path

from commerce.orders.views import NoPaymentView, OrderViewSet, RefundViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("orders", OrderViewSet)
router.register("refunds", RefundViewSet)

urlpatterns = [path("orders/payment", NoPaymentView.as_view()), *router.urls]
