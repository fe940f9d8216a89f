"""Personal data in OpenAI's batches, besides the batch and its files."""

from inference.openai_batches.models import FileBatch
from shared.personal_data import delete_rows

RULES = (delete_rows(FileBatch, "user"),)
