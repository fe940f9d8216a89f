"""Processes and background work: `child_processes`, `local_redis`, `broker` and `celery_app`, and `periodic_tasks`."""
