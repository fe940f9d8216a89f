"""Personal data in stored streams: the answers of models to the user."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from inference.streams.models import StoredStream, StreamSegment
from inference.streams.services import delete_streams
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule


def _erase(user: User, now: datetime) -> None:
    delete_streams(StoredStream.objects.filter(user=user).values_list("pk", flat=True))


def _segments(user: User) -> "dict[str, QuerySet[Any]]":
    return {"inference_streams.StreamSegment.stream": StreamSegment.objects.filter(stream__user=user)}


RULES = (PersonalDataRule(StoredStream, "user", _erase, related_rows=_segments),)
