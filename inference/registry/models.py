"""The desired state of models, as operators set it.

Which models exist is on disk; which are loaded is known to each machine's model host.
"""

from django.db import models
from django.db.models import Q

from shared.accounts.models import User


class DesiredModel(models.Model):
    """A model's desired state, to which every machine converges: loaded with these options, or unloaded.

    `revision` grows with every change, so that a machine can tell whether its model is older than the last change.
    """

    model_id = models.CharField(max_length=255, unique=True)
    is_desired = models.BooleanField(db_column="is_wanted")
    options = models.JSONField(default=dict, blank=True)  # a LoadOptions
    revision = models.PositiveBigIntegerField()
    changed_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    changed_at = models.DateTimeField()

    class Meta:
        db_table = "inference_registry_wantedmodel"
        verbose_name = "model"
        constraints = [models.CheckConstraint(condition=Q(revision__gte=1), name="inference_registry_revision_from_1")]

    def __str__(self) -> str:
        return f"{self.model_id}: {'loaded' if self.is_desired else 'unloaded'}"
