"""Configuration of the orders app."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "commerce.orders"
    label = "commerce_orders"
    verbose_name = "Orders"
