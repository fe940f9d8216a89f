"""Admin of drafts and jobs, and the views of the description writer on the product form."""

from commerce.descriptions.admin.drafts import DescriptionDraftAdmin
from commerce.descriptions.admin.jobs import DescriptionJobAdmin

__all__ = ["DescriptionDraftAdmin", "DescriptionJobAdmin"]
