"""What batches made of files keep about a person, beside the batch and the files."""

from inference.openai_batches.models import FileBatch
from shared.accounts.person_rules import deleted

RULES = (deleted(FileBatch, "user"),)
