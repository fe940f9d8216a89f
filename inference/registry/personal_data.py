"""Personal data in the model registry: who last changed a model's desired state."""

from inference.registry.models import DesiredModel
from shared.personal_data import retain_rows

RULES = (retain_rows(DesiredModel, "changed_by", reason="it concerns a model, and is linked to an id only"),)
