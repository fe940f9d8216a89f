"""Celery workers that lose the connection to their Redis."""

from typing import Any

from kombu.transport import redis


class LostMessages(redis.QoS):
    """What a worker has received and not acknowledged. When the connection is lost with such messages, kombu 5.7 asks
    the closed channel to restore and to acknowledge them, and that AttributeError ends the worker. Here they are left:
    the broker delivers them again, or has forgotten them; for work that is written down elsewhere both are right."""

    restore_at_shutdown = False

    def ack(self, delivery_tag: Any) -> None:
        if not self.channel.closed:
            super().ack(delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        if not self.channel.closed:
            super().reject(delivery_tag, requeue)


def outlive_the_broker() -> None:
    """For workers whose tasks are all written down: one that loses its broker goes on, and connects anew."""
    redis.Channel.QoS = LostMessages
