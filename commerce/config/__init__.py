"""Settings, routes, ASGI and Celery applications, and the OpenAPI document of the commerce project."""
