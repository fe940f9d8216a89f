"""Mounted by the shop under /api."""

from django.urls import path

from shared.accounts.views import LogoutView, RefreshView, RegisterView, TokenView

urlpatterns = [
    path("token", TokenView.as_view()),
    path("token/refresh", RefreshView.as_view()),
    path("register", RegisterView.as_view()),
    path("logout", LogoutView.as_view()),
]
