"""The addresses of a customer, for bills and for deliveries."""
