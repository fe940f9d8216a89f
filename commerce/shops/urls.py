"""Routes of shops, their staff and invitations, of users and the signed-in one, under /api."""

from django.urls import path

from commerce.shops.views import (
    AcceptInvitationView,
    AdminViewSet,
    AllStaffViewSet,
    ApproveShopView,
    CurrentUserView,
    CustomerViewSet,
    DisapproveShopView,
    MyShopViewSet,
    MyStaffViewSet,
    NewShopViewSet,
    ShopViewSet,
    StaffInvitationViewSet,
    StaffOfShopsViewSet,
    StaffViewSet,
    UserViewSet,
    VendorViewSet,
)
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("shops", ShopViewSet)
router.register("my-shops", MyShopViewSet, "my-shop")
router.register("new-shops", NewShopViewSet, "new-shop")
router.register("my-staffs", MyStaffViewSet, "my-staff")
router.register("all-staffs", AllStaffViewSet, "all-staff")
router.register("users", UserViewSet)
router.register("admin/list", AdminViewSet, "admin-user")
router.register("vendors/list", VendorViewSet, "vendor-user")
router.register("customers/list", CustomerViewSet, "customer-user")
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
