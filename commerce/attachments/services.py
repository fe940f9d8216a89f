"""Storing and deleting attachments, such that no file is without a row, and no row without its files.

A folder is written down as a Leftover before its first file, and is one no more when its attachment is committed. A
deleted attachment's folder becomes one in the same transaction, and is cleared after it.
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.conf import settings
from django.db import connection, transaction

from commerce.attachments import intake, storage
from commerce.attachments.image_headers import BadImage
from commerce.attachments.intake import Offered, Prepared
from commerce.attachments.models import Attachment, Leftover
from commerce.config.celery import send
from shared.accounts.models import User
from shared.api.errors import ApiError

UPLOAD_WITHIN = timedelta(hours=1)
SIZES_WITHIN = timedelta(minutes=2)
MOST_A_ROUND = 1000

logger = structlog.get_logger(__name__)


def upload_attachments(
    *, owner: User, offered: Sequence[Offered], now: datetime, claim: Callable[[], None] | None = None
) -> list[Attachment]:
    """Stores all of these files, or none. Raises ValidationFailed that names the files that are not taken; and what
    `intake` raises where it cannot look at them just now. `claim` is called in the transaction that makes them, and by
    raising keeps them from being made."""
    _give_back_connection()
    types = intake.check(offered)
    with intake.prepared(offered, types, has_worker=bool(settings.CELERY_BROKER_URL)) as files:
        attachments = [_attachment(owner, file, now) for file in files]
        folders = [storage.folder_of(attachment.key) for attachment in attachments]
        Leftover.objects.bulk_create([Leftover(folder=folder, due_at=now + UPLOAD_WITHIN) for folder in folders])
        try:
            for attachment, file in zip(attachments, files, strict=True):
                _save_files(attachment, file)
            _commit(attachments, folders, claim)
        except BaseException:
            # Asked of the database, and not taken for granted: a commit may be done though its answer was lost.
            clear(list(Leftover.objects.filter(folder__in=folders).values_list("folder", flat=True)))
            raise
    return attachments


def _give_back_connection() -> None:
    """To the pool, for others, while pictures are opened; the next statement takes one again."""
    if not connection.in_atomic_block:
        connection.close()


def _attachment(owner: User, file: Prepared, now: datetime) -> Attachment:
    return Attachment(
        owner=owner,
        key=secrets.token_hex(16),  # of this try alone, so that clearing it touches no other
        name=file.name,
        content_type=file.content_type,
        size=file.length,
        width=file.width,
        height=file.height,
        sizes_made_at=now if file.width and file.sizes is not None else None,
    )


def _save_files(attachment: Attachment, file: Prepared) -> None:
    storage.save(storage.original_path(attachment), file.file)
    for size, small in file.sizes or []:
        storage.save(storage.size_path(attachment, size), small)


@transaction.atomic
def _commit(attachments: list[Attachment], folders: list[str], claim: Callable[[], None] | None) -> None:
    if claim:
        claim()
    for attachment in attachments:
        attachment.save(force_insert=True)
    cleared, _ = Leftover.objects.filter(folder__in=folders).delete()
    if cleared != len(folders):
        raise ApiError(503, "The upload took too long. Try again.", headers={"Retry-After": "1"})
    for attachment in attachments:
        if attachment.is_image and not attachment.sizes_made_at:
            transaction.on_commit(
                partial(send, "commerce.attachments.tasks.make_sizes", attachment_id=attachment.pk), robust=True
            )


def clear(folders: Sequence[str]) -> None:
    """Remove these folders of nobody. What cannot be removed now stays written down for the next round."""
    for folder in folders:
        if remove_files(folder):
            Leftover.objects.filter(folder=folder).delete()


def remove_files(folder: str) -> bool:
    """False where the storage cannot just now."""
    try:
        storage.delete_folder(folder)
    except Exception as error:  # storages raise what their libraries do
        logger.warning("folder_not_removed", folder=folder, reason=type(error).__name__)
        return False
    return True


@transaction.atomic
def delete_attachment(*, attachment_id: int, actor: User, now: datetime) -> None:
    """Deletes the attachment and, once that is committed, its files. Raises ApiError 404 for one that is not there or
    not theirs."""
    attachment = Attachment.objects.for_user(actor).select_for_update().filter(pk=attachment_id).first()
    if attachment is None:
        raise ApiError(404, "There is no such attachment, or it is not yours.")
    folder = storage.folder_of(attachment.key)
    attachment.delete()
    Leftover.objects.create(folder=folder, due_at=now)
    transaction.on_commit(partial(clear, [folder]), robust=True)


def make_sizes(*, attachment_id: int, now: datetime) -> None:
    """Makes the smaller copies of an image whose sender did not wait for them. Does nothing where they are made, or
    the attachment is gone."""
    attachment = Attachment.objects.filter(pk=attachment_id, sizes_made_at=None, width__isnull=False).first()
    if attachment is None or attachment.width is None or attachment.height is None:
        return
    _give_back_connection()
    with contextlib.ExitStack() as files:
        original = files.enter_context(intake.temporary_file())
        storage.copy_to(storage.original_path(attachment), original)
        sizes = intake.make_sizes(original, attachment.content_type, attachment.width, attachment.height, files)
        with transaction.atomic():  # it cannot be deleted in between, and leave what is written here
            if Attachment.objects.select_for_update().filter(pk=attachment_id, sizes_made_at=None).exists():
                for size, small in sizes:
                    storage.save(storage.size_path(attachment, size), small)
                Attachment.objects.filter(pk=attachment_id).update(sizes_made_at=now, updated_at=now)


def collect(*, now: datetime, also_running: bool = False) -> int:
    """Clears the folders that are due, and has the sizes made that are missing. Answers how many folders were due.

    `also_running`: counts uploads that are not finished as due. Only for when none can be running.
    """
    due = Leftover.objects.all() if also_running else Leftover.objects.filter(due_at__lte=now)
    folders = list(due.order_by("due_at").values_list("folder", flat=True)[:MOST_A_ROUND])
    clear(folders)
    unsized = Attachment.objects.filter(
        width__isnull=False, sizes_made_at=None, created_at__lte=now - SIZES_WITHIN
    ).order_by("id")
    for attachment_id in unsized.values_list("pk", flat=True)[:MOST_A_ROUND]:
        _have_sizes_made(attachment_id, now)
    return len(folders)


def _have_sizes_made(attachment_id: int, now: datetime) -> None:
    if settings.CELERY_BROKER_URL:
        send("commerce.attachments.tasks.make_sizes", attachment_id=attachment_id)
        return
    try:
        make_sizes(attachment_id=attachment_id, now=now)
    except (BadImage, OSError) as error:
        logger.warning("sizes_not_made", attachment_id=attachment_id, reason=type(error).__name__)


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What does not agree: folders that nobody knows, and attachments whose file is not there."""

    unknown: list[str]
    missing: list[int]


def scan(*, now: datetime) -> Scan:
    """Compares the storage with the database, one by one: for when either was restored from a backup. Unknown folders
    are written down as left over, and go once an upload could not be what they are of."""
    unknown = [folder for folder in storage.all_folders() if not _is_known(folder)]
    leftovers = [Leftover(folder=folder, due_at=now + UPLOAD_WITHIN) for folder in unknown]
    Leftover.objects.bulk_create(leftovers, ignore_conflicts=True)
    missing = [attachment.pk for attachment in Attachment.objects.iterator() if not storage.is_there(attachment)]
    return Scan(unknown=unknown, missing=missing)


def _is_known(folder: str) -> bool:
    key = folder.removeprefix(f"{storage.FOLDER}/")
    return Leftover.objects.filter(folder=folder).exists() or Attachment.objects.filter(key=key).exists()
