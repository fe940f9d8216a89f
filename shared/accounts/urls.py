"""Mounted by the shop under /api."""

from django.urls import path

from shared.accounts.views import (
    ChangePasswordView,
    ForgetPasswordView,
    LogoutView,
    RefreshView,
    RegisterView,
    ResetPasswordView,
    SessionsView,
    SessionView,
    TokenView,
    VerifyEmailView,
)

urlpatterns = [
    path("token", TokenView.as_view()),
    path("token/refresh", RefreshView.as_view()),
    path("register", RegisterView.as_view()),
    path("logout", LogoutView.as_view()),
    path("sessions", SessionsView.as_view()),
    path("sessions/<uuid:sign_in_id>", SessionView.as_view()),
    path("change-password", ChangePasswordView.as_view()),
    path("forget-password", ForgetPasswordView.as_view()),
    path("reset-password", ResetPasswordView.as_view()),
    path("verify-email", VerifyEmailView.as_view()),
]
