"""Routes of attachments, under /api."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
