"""Routes of shops, their staff and invitations, and of the signed-in user, under /api."""

from django.urls import path

from commerce.shops.views import (
    AcceptInvitationView,
    ApproveShopView,
    CurrentUserView,
    DisapproveShopView,
    MyShopViewSet,
    ShopViewSet,
    StaffInvitationViewSet,
    StaffOfShopsViewSet,
    StaffViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("shops", ShopViewSet)
router.register("my-shops", MyShopViewSet, "my-shop")
router.register("staffs", StaffOfShopsViewSet, "staff-of-shops")
router.register("shops/<id:shop_id>/staff", StaffViewSet)
router.register("shops/<id:shop_id>/invitations", StaffInvitationViewSet)

urlpatterns = [
    path("me", CurrentUserView.as_view()),
    path("accept-invitation", AcceptInvitationView.as_view()),
    path("approve-shop", ApproveShopView.as_view()),
    path("disapprove-shop", DisapproveShopView.as_view()),
    *router.urls,
]
