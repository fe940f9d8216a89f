"""What the operators want loaded. Which models exist is on disk, which run is known by each machine's model host."""

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class WantedModel(models.Model):
    """An operator's last word on a model: to be loaded, with these options, or not. Machines converge on it.

    revision: grows with every word, so that a machine knows whether what it runs is older than the last one.
    """

    model_id = models.CharField(max_length=255, unique=True)
    is_wanted = models.BooleanField()
    options = models.JSONField(default=dict, blank=True)  # a LoadOptions
    revision = models.PositiveBigIntegerField()
    changed_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name = "model"
        constraints = [models.CheckConstraint(condition=Q(revision__gte=1), name="inference_registry_revision_from_1")]

    def __str__(self) -> str:
        return f"{self.model_id} {'wanted' if self.is_wanted else 'not wanted'}"
