"""What a user sees of themself and their shops."""

from django.urls import path

from commerce.shops.views import MeView

urlpatterns = [path("me", MeView.as_view())]
