"""Routes of products, product types, categories and tags, under /api."""

from commerce.catalog.views import (
    BestSellingViewSet,
    CategoryViewSet,
    LowStockViewSet,
    PopularViewSet,
    ProductViewSet,
    TagViewSet,
    TypeViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("products", ProductViewSet)
router.register("low-stock-products", LowStockViewSet, "low-stock-product")
router.register("best-selling-products", BestSellingViewSet, "best-selling-product")
router.register("popular-products", PopularViewSet, "popular-product")
router.register("categories", CategoryViewSet)
router.register("types", TypeViewSet)
router.register("tags", TagViewSet)

urlpatterns = router.urls
