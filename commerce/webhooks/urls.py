"""Routes of webhooks, under /api."""

from commerce.webhooks.views import WebhookDeliveryViewSet, WebhookViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("webhooks", WebhookViewSet)
router.register("webhooks/<slug_or_id:webhook_id>/deliveries", WebhookDeliveryViewSet)

urlpatterns = router.urls
