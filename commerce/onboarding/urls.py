"""Route of the first steps, under /admin."""

from django.urls import path

from commerce.analytics.dashboard.access import shop_users_only
from commerce.onboarding.views import first_steps

urlpatterns = [path("first-steps/", shop_users_only(first_steps), name="first_steps")]
