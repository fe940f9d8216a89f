"""Routes of signing in."""

from django.urls import path

from inference.access.views import login

urlpatterns = [path("auth/login", login)]
