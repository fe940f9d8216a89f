"""Count the files of present staff in the quotas of their shops."""

from typing import Any

from django.db import migrations
from django.db.models import OuterRef, Subquery


def count_files_of_staff(apps: Any, _: Any) -> None:
    places = apps.get_model("commerce_shops", "ShopStaff").objects.filter(user=OuterRef("owner"))
    of_staff = apps.get_model("commerce_attachments", "Attachment").objects.filter(owner__shop_place__isnull=False)
    of_staff.update(shop=Subquery(places.values("shop")[:1]))


class Migration(migrations.Migration):
    dependencies = [("commerce_attachments", "0007_shop"), ("commerce_shops", "0007_attachment_quota")]

    operations = [migrations.RunPython(count_files_of_staff, migrations.RunPython.noop)]
