"""Uploads and deletes, and is killed at every point in between that matters: `python -m ... POINTS`, with the settings
in the environment. Prints what was there after each kill and a collection, as JSON.

Points are before and after each statement to the database and each file that is stored or removed. Each is tried in a
fork of its own, on one database and one folder.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.files import File  # noqa: E402
from django.core.files.storage import default_storage  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.attachments import services  # noqa: E402
from commerce.attachments.models import Attachment, ScheduledDeletion  # noqa: E402
from commerce.attachments.uploads import preparation  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.services import create_user  # noqa: E402
from tests.commerce.attachments.samples import image_file, pdf_file  # noqa: E402


class KillPoints:
    """Counter of the points that were passed. It kills the process at number `last`."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def pass_point(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.pass_point()
            result = function(*args, **kwargs)
            self.pass_point()
            return result

        return counted


def upload_and_delete(owner: User, points: KillPoints) -> None:
    storage: Any = default_storage
    storage.save = points.around(storage.save)
    storage.delete = points.around(storage.delete)
    connection.commit = points.around(connection.commit)
    with connection.execute_wrapper(lambda execute, *args: points.around(execute)(*args)):
        incoming_files = []
        for name, content in (("a.png", image_file(width=400)), ("b.pdf", pdf_file())):
            file = preparation.temporary_file()
            file.write(content)
            incoming_files.append(File(file, name))
        uploaded = services.upload_attachments(owner=owner, incoming_files=incoming_files, now=timezone.now())
        services.delete_attachment(attachment_id=uploaded[0].pk, actor=owner, now=timezone.now())


def run_in_fork(owner: User, last: int) -> int:
    """Return how many points a fork passed, or 0 if it was killed."""
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # a fork must not share connections
    reading, writing = os.pipe()
    if os.fork() == 0:
        points = KillPoints(last)
        upload_and_delete(owner, points)
        connection.close()
        os.write(writing, str(points.count).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        count = pipe.read()
    os.wait()
    return int(count or 0)


def compare_rows_and_files() -> dict[str, Any]:
    """Return whether the stored files are exactly those of the attachments, with the counts of rows."""
    expected = set()
    for attachment in Attachment.objects.all():
        expected.add(f"attachments/{attachment.key}/{attachment.name}")
        if attachment.is_image:
            names = ("thumbnail.webp", "w320.webp", "w320.avif")
            expected |= {f"attachments/{attachment.key}/sizes/{name}" for name in names}
    root = Path(settings.MEDIA_ROOT)
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    folders = len(list((root / "attachments").iterdir()))
    return {
        "rows": Attachment.objects.count(),
        "agree": files == expected and folders == Attachment.objects.count(),
        "scheduled_deletions": ScheduledDeletion.objects.count(),
    }


def main() -> None:
    owner = create_user(email="killed@example.com", name="Killed", password=None, role="CUSTOMER", now=timezone.now())
    total = run_in_fork(owner, 0)
    wanted = int(sys.argv[1])
    runs = []
    for number in range(wanted):
        last = 1 + number * (total - 1) // max(1, wanted - 1)
        passed = run_in_fork(owner, last)
        call_command("collect_attachments", "--all", stdout=open(os.devnull, "w"))  # noqa: SIM115
        runs.append({"point": last, "killed": passed == 0} | compare_rows_and_files())
    print(json.dumps({"total": total, "runs": runs}))


if __name__ == "__main__":
    main()
