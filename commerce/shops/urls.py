"""What a user sees of themself and their shops, and shops as everybody sees them."""

from django.urls import path

from commerce.shops.staff_views import (
    AcceptInvitationView,
    InvitationListView,
    InvitationView,
    StaffMemberView,
    StaffView,
)
from commerce.shops.views import MeView, ShopListView, ShopView

urlpatterns = [
    path("me", MeView.as_view()),
    path("shops", ShopListView.as_view()),
    path("shops/<slug:key>", ShopView.as_view()),
    path("shops/<id:shop_id>/staff", StaffView.as_view()),
    path("shops/<id:shop_id>/staff/<id:user_id>", StaffMemberView.as_view()),
    path("shops/<id:shop_id>/invitations", InvitationListView.as_view()),
    path("shops/<id:shop_id>/invitations/<id:invitation_id>", InvitationView.as_view()),
    path("accept-invitation", AcceptInvitationView.as_view()),
]
