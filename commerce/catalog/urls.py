"""Routes of products, product types, categories and tags, under /api."""

from django.urls import path

from commerce.catalog.transfer.views import (
    ExportProductsView,
    ExportVariationsView,
    ImportProductsView,
    ImportVariationsView,
)
from commerce.catalog.views import (
    BestSellingViewSet,
    CategoryViewSet,
    DraftProductViewSet,
    LowStockViewSet,
    PopularViewSet,
    ProductViewSet,
    StockViewSet,
    TagViewSet,
    TypeViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("products", ProductViewSet)
router.register("low-stock-products", LowStockViewSet, "low-stock-product")
router.register("products-stock", StockViewSet, "stock-product")
router.register("draft-products", DraftProductViewSet, "draft-product")
router.register("best-selling-products", BestSellingViewSet, "best-selling-product")
router.register("popular-products", PopularViewSet, "popular-product")
router.register("categories", CategoryViewSet)
router.register("types", TypeViewSet)
router.register("tags", TagViewSet)

urlpatterns = [
    *router.urls,
    path("export-products/<id:shop_id>", ExportProductsView.as_view()),
    path("import-products", ImportProductsView.as_view()),
    path("export-variation-options/<id:shop_id>", ExportVariationsView.as_view()),
    path("import-variation-options", ImportVariationsView.as_view()),
]
