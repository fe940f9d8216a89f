"""Routes of orders and refunds, under /api."""

from django.urls import path

from commerce.orders.views import OrderListView, OrderView, RefundListView, RefundView

urlpatterns = [
    path("orders", OrderListView.as_view()),
    path("orders/<slug:key>", OrderView.as_view()),
    path("refunds", RefundListView.as_view()),
    path("refunds/<id:pk>", RefundView.as_view()),
]
