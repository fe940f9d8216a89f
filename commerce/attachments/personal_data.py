"""Personal data of the app: the files that a person uploaded."""

from datetime import datetime
from typing import Any

from commerce.attachments.models import Attachment
from commerce.attachments.services import delete_attachment
from shared.accounts.models import User
from shared.personal_data import PersonalDataRule

# Models of customers' own content. An attachment that any other model refers to belongs to a shop and is kept.
CUSTOMER_CONTENT_MODELS = frozenset({"commerce_reviews.Review", "commerce_reviews.Review_photos"})


def _erase(user: User, now: datetime) -> None:
    used_ids = _ids_used_by_shops(user)
    for attachment_id in Attachment.objects.filter(owner=user).values_list("pk", flat=True):
        if attachment_id not in used_ids:
            delete_attachment(attachment_id=attachment_id, actor=user, now=now)


def _ids_used_by_shops(user: User) -> set[int]:
    fields: list[Any] = list(Attachment._meta.get_fields(include_hidden=True))
    return {
        attachment_id
        for relation in fields
        if relation.auto_created
        and relation.is_relation
        and relation.related_model._meta.label not in CUSTOMER_CONTENT_MODELS
        for attachment_id in relation.related_model._base_manager.filter(
            **{f"{relation.field.name}__owner": user}
        ).values_list(f"{relation.field.name}__pk", flat=True)
    }


RULES = (PersonalDataRule(Attachment, "owner", _erase),)
