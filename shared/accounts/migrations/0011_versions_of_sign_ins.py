from typing import Any

from django.db import migrations
from django.db.models import OuterRef, Subquery

CHUNK_ROWS = 1000


def fill_token_versions(apps: Any, schema_editor: Any) -> None:
    """Give sign-ins of an earlier version the present version of their users, so that a new password ends them."""
    database = schema_editor.connection.alias
    users = apps.get_model("accounts", "User")._base_manager.using(database)
    sign_ins = apps.get_model("accounts", "SignIn")._base_manager.using(database)
    version = users.filter(pk=OuterRef("user")).values("token_version")
    while chunk := list(sign_ins.filter(token_version=None).values_list("pk", flat=True)[:CHUNK_ROWS]):
        sign_ins.filter(pk__in=chunk).update(token_version=Subquery(version))


class Migration(migrations.Migration):
    atomic = False  # refreshes of sign-ins wait for one chunk at most
    dependencies = [("accounts", "0010_moderators")]

    operations = [migrations.RunPython(fill_token_versions, migrations.RunPython.noop)]
