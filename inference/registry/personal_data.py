"""What the registry of models keeps about a person: which model they wanted loaded."""

from inference.registry.models import WantedModel
from shared.accounts.person_rules import kept

RULES = (kept(WantedModel, "changed_by", why="it is about a model, and names them by an id"),)
