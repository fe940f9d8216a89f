"""The members of pools, and the import of the setting that named remote models before."""

from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from inference.pools.definitions import LOCAL
from inference.remote.configuration import MODEL_ID_PATTERN, is_base_url
from inference.remote.dialects import DIALECTS

MAX_WEIGHT = 1000
MAX_TIMEOUT_SECONDS = 3600
TEXT_GENERATION, EMBEDDINGS = "text-generation", "embeddings"

CAPABILITIES = (TEXT_GENERATION, EMBEDDINGS)
KINDS_WITH_BATCHES = ("openai", "stoa")

_seconds = [MinValueValidator(0.01), MaxValueValidator(MAX_TIMEOUT_SECONDS)]


def default_capabilities() -> list[str]:
    return [TEXT_GENERATION]


def check_capabilities(value: Any) -> None:
    if not isinstance(value, list) or not value or not set(map(str, value)) <= set(CAPABILITIES):
        raise ValidationError(f"Choose some of {', '.join(CAPABILITIES)}.")


def check_base_url(value: str) -> None:
    if not is_base_url(value):
        raise ValidationError("Write it like https://gpu.example:8000/v1, without user or query.", code="base_url")


class PoolMember(models.Model):
    """A model at an OpenAI-compatible server, or the model of this machine with the same id.

    The members with one `model_id` are the pool of that model. Its local member, of which there is one at most, gets
    the requests until `max_waiting` wait there. A draining member finishes its requests and gets no new ones.
    """

    class State(models.TextChoices):
        ENABLED = "enabled", "Enabled"
        DRAINING = "draining", "Draining"

    KINDS: ClassVar[list[tuple[Any, str]]] = [(name, name) for name in (*DIALECTS, LOCAL)]

    model_id = models.CharField(
        "model",
        max_length=100,
        validators=[RegexValidator(MODEL_ID_PATTERN, "Use letters, digits, '.', '_', ':' and '-'.")],
        help_text="Id of the model here. Members with the same id are one pool.",
    )
    name = models.CharField(
        max_length=60,
        validators=[RegexValidator(MODEL_ID_PATTERN, "Use letters, digits, '.', '_', ':' and '-'.")],
        help_text="Name of the member in lists and metrics.",
    )
    base_url = models.CharField(
        "base URL",
        max_length=500,
        blank=True,
        validators=[check_base_url],
        help_text="With /v1, as OpenAI's clients take it. Empty for the kind local.",
    )
    api_key = models.TextField("API key", blank=True)  # encrypted
    model_name = models.CharField(
        "model at the member", max_length=255, blank=True, help_text="If it is not the id here."
    )
    kind = models.CharField(
        max_length=20,
        choices=KINDS,
        default="openai",
        help_text="What the server understands beyond OpenAI's API. local: the model of this machine with the same id.",
    )
    max_waiting = models.PositiveIntegerField(
        "waiting requests",
        default=0,
        db_default=0,
        help_text="Only for the kind local: requests go to the other members while so many wait at this one, or while "
        "it is not loaded. 0: as soon as all its slots are taken.",
    )
    weight = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_WEIGHT)],
        help_text="Share of the requests, relative to the other members.",
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.ENABLED)
    capabilities = models.JSONField(default=default_capabilities, validators=[check_capabilities])
    context_size = models.PositiveIntegerField(default=0, help_text="Tokens. 0: what the server reports.")
    stream_usage = models.BooleanField(
        "usage in streams", default=True, help_text="Off for a server that reports no usage at the end of a stream."
    )
    takes_batches = models.BooleanField(
        "takes whole batches",
        default=False,
        db_default=False,
        help_text="Batches of files are handed to its own /v1/batches, in a pool without a local member. Only for the "
        "kinds openai and stoa.",
    )
    connect_timeout = models.FloatField(default=5.0, validators=_seconds, help_text="Seconds.")
    first_token_timeout = models.FloatField(default=120.0, validators=_seconds, help_text="Seconds.")
    token_timeout = models.FloatField(default=60.0, validators=_seconds, help_text="Seconds between tokens.")
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["model_id", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["model_id", "name"],
                name="inference_pools_member_name_once",
                violation_error_message="The pool has a member of this name: choose another one.",
            ),
            models.CheckConstraint(condition=Q(weight__gte=1), name="inference_pools_weight_from_1"),
            models.UniqueConstraint(
                fields=["model_id"],
                condition=Q(kind=LOCAL),
                name="inference_pools_local_member_once",
                violation_error_message="The pool has a local member: change that one.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_id}/{self.name}"

    def clean(self) -> None:
        """Raise ValidationError for a server without a URL, or a local member with one."""
        if self.kind != LOCAL and not self.base_url:
            raise ValidationError({"base_url": "Write the server's URL, like https://gpu.example:8000/v1."})
        if self.takes_batches and self.kind not in KINDS_WITH_BATCHES:
            raise ValidationError({"takes_batches": "Only servers of the kinds openai and stoa have /v1/batches."})
        if self.kind == LOCAL and (self.base_url or self.model_name or self.api_key):
            raise ValidationError(
                {"base_url": "The model of this machine has no URL, API key or other name: leave them empty."}
            )


class SettingImport(models.Model):
    """The one import of a setting into the database. digest: a salted hash of the value that was imported."""

    setting = models.CharField(max_length=60, unique=True)
    digest = models.CharField(max_length=200)
    imported_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.setting
