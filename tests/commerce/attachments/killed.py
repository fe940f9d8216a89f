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
from django.core.files.storage import default_storage  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from commerce.attachments import intake, services  # noqa: E402
from commerce.attachments.intake import Offered  # noqa: E402
from commerce.attachments.models import Attachment, Leftover  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.services import create_user  # noqa: E402
from tests.commerce.attachments.samples import image_file, pdf_file  # noqa: E402


class Points:
    """Counts them; at number `last` the process is gone."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.pass_one()
            result = function(*args, **kwargs)
            self.pass_one()
            return result

        return counted


def upload_and_delete(owner: User, points: Points) -> None:
    storage: Any = default_storage
    storage.save = points.around(storage.save)
    storage.delete = points.around(storage.delete)
    connection.commit = points.around(connection.commit)
    with connection.execute_wrapper(lambda execute, *args: points.around(execute)(*args)):
        offered = []
        for name, content in (("a.png", image_file(width=400)), ("b.pdf", pdf_file())):
            file = intake.temporary_file()
            file.write(content)
            offered.append(Offered(file=file, name=name))
        uploaded = services.upload_attachments(owner=owner, offered=offered, now=timezone.now())
        services.delete_attachment(attachment_id=uploaded[0].pk, actor=owner, now=timezone.now())


def in_a_fork(owner: User, last: int) -> int:
    """The points that were passed; 0 for a fork that was killed."""
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # a fork has connections of its own
    reading, writing = os.pipe()
    if os.fork() == 0:
        points = Points(last)
        upload_and_delete(owner, points)
        connection.close()
        os.write(writing, str(points.count).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        count = told.read()
    os.wait()
    return int(count or 0)


def what_is_there() -> dict[str, Any]:
    """Rows and files must be the same: each attachment's own, and nothing else."""
    expected = set()
    for attachment in Attachment.objects.all():
        expected.add(f"attachments/{attachment.key}/{attachment.name}")
        if attachment.is_image:
            names = ("thumbnail", "w320")
            expected |= {f"attachments/{attachment.key}/sizes/{name}.webp" for name in names}
    root = Path(settings.MEDIA_ROOT)
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    folders = len(list((root / "attachments").iterdir()))
    return {
        "rows": Attachment.objects.count(),
        "agree": files == expected and folders == Attachment.objects.count(),
        "leftovers": Leftover.objects.count(),
    }


def main() -> None:
    call_command("migrate", verbosity=0)
    owner = create_user(email="killed@example.com", name="Killed", password=None, role="CUSTOMER", now=timezone.now())
    total = in_a_fork(owner, 0)
    wanted = int(sys.argv[1])
    told = []
    for number in range(wanted):
        last = 1 + number * (total - 1) // max(1, wanted - 1)
        passed = in_a_fork(owner, last)
        call_command("collect_attachments", "--all", stdout=open(os.devnull, "w"))  # noqa: SIM115
        told.append({"point": last, "killed": passed == 0} | what_is_there())
    print(json.dumps({"total": total, "runs": told}))


if __name__ == "__main__":
    main()
