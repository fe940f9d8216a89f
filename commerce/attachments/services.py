"""Storing and deleting attachments, and the cleanup after crashes.

A row without its files, or files without a row, cannot last. An upload schedules the deletion of its folder before it
stores the first file, and cancels that in the transaction that creates the attachment. Deleting an attachment schedules
the deletion of its folder in the same transaction.
"""

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any

import structlog
from django.conf import settings
from django.core.files import File
from django.db import connection, transaction

from commerce.attachments import storage
from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.sizes import ImageSize
from commerce.attachments.models import Attachment, ScheduledDeletion
from commerce.attachments.quota import lock_shop_of, require_free_storage
from commerce.attachments.uploads import preparation
from commerce.attachments.uploads.preparation import PreparedFile
from commerce.config.celery import send
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError, ValidationFailed
from shared.querysets import pages_by_pk

UPLOAD_TIMEOUT = timedelta(hours=1)
SIZES_TIMEOUT = timedelta(minutes=2)
MAX_PER_RUN = 1000

logger = structlog.get_logger(__name__)


def upload_attachments(
    *,
    owner: User,
    incoming_files: "Sequence[File[bytes]]",
    now: datetime,
    on_created: Callable[[list[Attachment]], None] | None = None,
) -> list[Attachment]:
    """Store all of these files, or none.

    `on_created` is called in the transaction that creates the attachments; an exception from it prevents them. Raises
    ValidationFailed naming the invalid files, ApiError 413 over a quota and 503 after an hour, and the errors
    of `preparation`.
    """
    require_free_storage(owner=owner, added_bytes=0, added_files=len(incoming_files))
    _release_connection()
    with preparation.prepare_files(incoming_files, user=str(owner.pk)) as files:
        attachments = [_build_attachment(owner, file, now) for file in files]
        _require_free_storage(owner, attachments)
        folders = [storage.attachment_folder(attachment.key) for attachment in attachments]
        due_at = now + UPLOAD_TIMEOUT
        ScheduledDeletion.objects.bulk_create([ScheduledDeletion(folder=folder, due_at=due_at) for folder in folders])
        try:
            for attachment, file in zip(attachments, files, strict=True):
                _save_files(attachment, file)
            _commit(attachments, folders, on_created)
        except BaseException:
            # Only the database knows whether the commit happened: its reply may have been lost.
            delete_folders(list(ScheduledDeletion.objects.filter(folder__in=folders).values_list("folder", flat=True)))
            raise
    return attachments


def _release_connection() -> None:
    """Return the connection to the pool while images are decoded. The next statement opens another."""
    if not connection.in_atomic_block:
        connection.close()


def _build_attachment(owner: User, file: PreparedFile, now: datetime) -> Attachment:
    return Attachment(
        owner=owner,
        key=secrets.token_hex(16),  # unique to this attempt, so that its cleanup touches no other
        name=file.name,
        content_type=file.content_type,
        size=file.length,
        width=file.width,
        height=file.height,
        has_avif=_has_avif(file.sizes or []),
        sizes_made_at=now if file.width and file.sizes is not None else None,
    )


def _has_avif(sizes: Sequence[tuple[ImageSize, Any]]) -> bool:
    return any(size.format == "avif" for size, _ in sizes)


def _require_free_storage(owner: User, attachments: Sequence[Attachment]) -> None:
    size = sum(attachment.size for attachment in attachments)
    require_free_storage(owner=owner, added_bytes=size, added_files=len(attachments))


def _save_files(attachment: Attachment, file: PreparedFile) -> None:
    storage.save(storage.original_path(attachment), file.file)
    for size, copy in file.sizes or []:
        storage.save(storage.size_path(attachment, size), copy)


@transaction.atomic
def _commit(
    attachments: list[Attachment], folders: list[str], on_created: Callable[[list[Attachment]], None] | None
) -> None:
    owner = attachments[0].owner
    lock_active_user(owner)  # of several uploads at once, each sees the files of those before it
    shop_id = lock_shop_of(owner)
    _require_free_storage(owner, attachments)
    for attachment in attachments:
        attachment.shop_id = shop_id
        attachment.save(force_insert=True)
    cancelled_count, _ = ScheduledDeletion.objects.filter(folder__in=folders).delete()
    if cancelled_count != len(folders):
        raise ApiError(503, "The upload took too long. Try again.", headers={"Retry-After": "1"})
    if on_created:
        on_created(attachments)
    for attachment in attachments:
        if attachment.is_image and not attachment.sizes_made_at:
            transaction.on_commit(
                partial(send, "commerce.attachments.tasks.make_sizes", attachment_id=attachment.pk), robust=True
            )


def delete_folders(folders: Sequence[str]) -> None:
    """Delete these folders. A folder that the storage cannot delete now stays scheduled."""
    for folder in folders:
        if try_delete_folder(folder):
            ScheduledDeletion.objects.filter(folder=folder).delete()


def try_delete_folder(folder: str) -> bool:
    """Delete a folder's files. Return False where the storage fails."""
    try:
        storage.delete_folder(folder)
    except Exception as error:  # each storage raises the exceptions of its own library
        logger.warning("folder_deletion_failed", folder=folder, reason=type(error).__name__)
        return False
    return True


@transaction.atomic
def change_attachment(*, attachment_id: int, actor: User, values: Mapping[str, Any]) -> Attachment:
    """Change `alt` and `focal_point` of an image.

    Raise ApiError 404 unless the actor may delete the attachment, and ValidationFailed for one that is no image.
    """
    attachment = Attachment.objects.for_user(actor).select_for_update().filter(pk=attachment_id).first()
    if attachment is None:
        raise ApiError(404, "You have no attachment with this id.")
    if not attachment.is_image and values:
        raise ValidationFailed({name: ["Only images have this field."] for name in values})
    if "alt" in values:
        attachment.alt = values["alt"]
    if "focal_point" in values:
        point = values["focal_point"] or {"x": None, "y": None}
        attachment.focal_x, attachment.focal_y = point["x"], point["y"]
    attachment.save(update_fields=["alt", "focal_x", "focal_y", "updated_at"])
    return attachment


@transaction.atomic
def delete_attachment(*, attachment_id: int, actor: User, now: datetime) -> None:
    """Delete the attachment and, after the commit, its files. Raise ApiError 404 unless the actor may delete it."""
    attachment = Attachment.objects.for_user(actor).select_for_update().filter(pk=attachment_id).first()
    if attachment is None:
        raise ApiError(404, "You have no attachment with this id.")
    folder = storage.attachment_folder(attachment.key)
    attachment.delete()
    ScheduledDeletion.objects.create(folder=folder, due_at=now)
    transaction.on_commit(partial(delete_folders, [folder]), robust=True)


def make_sizes(*, attachment_id: int, now: datetime) -> None:
    """Make the smaller copies of an image, unless they exist or the attachment is gone."""
    attachment = Attachment.objects.filter(pk=attachment_id, sizes_made_at=None, width__isnull=False).first()
    if attachment is None or attachment.width is None or attachment.height is None:
        return
    _release_connection()
    with contextlib.ExitStack() as open_files:
        original = open_files.enter_context(preparation.temporary_file())
        storage.copy_to(storage.original_path(attachment), original)
        sizes = preparation.make_sizes(
            original, attachment.content_type, attachment.width, attachment.height, open_files
        )
        with transaction.atomic():  # a concurrent deletion waits, so that it deletes these files too
            if Attachment.objects.select_for_update().filter(pk=attachment_id, sizes_made_at=None).exists():
                for size, copy in sizes:
                    storage.save(storage.size_path(attachment, size), copy)
                Attachment.objects.filter(pk=attachment_id).update(
                    sizes_made_at=now, has_avif=_has_avif(sizes), updated_at=now
                )


def collect_garbage(*, now: datetime, include_running: bool = False) -> int:
    """Delete the folders that are due, schedule missing smaller copies, and return how many folders were due.

    `include_running` treats unfinished uploads as due. Use it only while no upload can be running.
    """
    due = ScheduledDeletion.objects.all() if include_running else ScheduledDeletion.objects.filter(due_at__lte=now)
    folders = list(due.order_by("due_at").values_list("folder", flat=True)[:MAX_PER_RUN])
    delete_folders(folders)
    unsized = Attachment.objects.filter(
        width__isnull=False, sizes_made_at=None, created_at__lte=now - SIZES_TIMEOUT
    ).order_by("id")
    for attachment_id in unsized.values_list("pk", flat=True)[:MAX_PER_RUN]:
        _schedule_sizes(attachment_id, now)
    return len(folders)


def _schedule_sizes(attachment_id: int, now: datetime) -> None:
    """Send the task to a worker, or make the copies here where there is none."""
    if settings.CELERY_BROKER_URL:
        send("commerce.attachments.tasks.make_sizes", attachment_id=attachment_id)
        return
    try:
        make_sizes(attachment_id=attachment_id, now=now)
    except (InvalidImage, OSError) as error:
        logger.warning("sizes_failed", attachment_id=attachment_id, reason=type(error).__name__)


def compare_storage(*, now: datetime) -> tuple[list[str], list[int]]:
    """Return folders that no row refers to, and the ids of attachments whose file is missing.

    It reads the whole storage and database, for use after one was restored from a backup.
    Unknown folders are scheduled for deletion after the time that a running upload may take.
    """
    unknown_folders = [folder for folder in storage.iter_folders() if not _is_known(folder)]
    deletions = [ScheduledDeletion(folder=folder, due_at=now + UPLOAD_TIMEOUT) for folder in unknown_folders]
    ScheduledDeletion.objects.bulk_create(deletions, ignore_conflicts=True)
    attachments = chain.from_iterable(pages_by_pk(Attachment.objects.all()))
    missing = [attachment.pk for attachment in attachments if not storage.original_exists(attachment)]
    return unknown_folders, missing


def _is_known(folder: str) -> bool:
    key = folder.removeprefix(f"{storage.ATTACHMENTS_FOLDER}/")
    return ScheduledDeletion.objects.filter(folder=folder).exists() or Attachment.objects.filter(key=key).exists()
