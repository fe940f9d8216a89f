"""Routes of products, product types and categories, under /api."""

from commerce.catalog.views import CategoryViewSet, LowStockViewSet, ProductViewSet, TypeViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("products", ProductViewSet)
router.register("low-stock-products", LowStockViewSet, "low-stock-product")
router.register("categories", CategoryViewSet)
router.register("types", TypeViewSet)

urlpatterns = router.urls
