"""Routes of orders and refunds, under /api."""

from commerce.orders.views import OrderViewSet, RefundViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("orders", OrderViewSet)
router.register("refunds", RefundViewSet)

urlpatterns = router.urls
