"""Drafts from before it was kept by which description they were asked for: by the one that there is."""

import hashlib

from django.db import migrations

BATCH = 500


def know_what_they_replace(apps, schema_editor):
    draft, item = (apps.get_model("commerce_descriptions", name) for name in ("DescriptionDraft", "JobItem"))
    for model, rows in ((draft, draft.objects.filter(state="open")), (item, item.objects.filter(state="waiting"))):
        last = 0
        while some := list(rows.filter(pk__gt=last).select_related("product").order_by("pk")[:BATCH]):
            for row in some:
                row.based_on = hashlib.sha256(row.product.description.encode()).hexdigest()
            model.objects.bulk_update(some, ["based_on"])
            last = some[-1].pk


class Migration(migrations.Migration):

    dependencies = [("commerce_descriptions", "0005_drafts_know_what_they_replace")]

    operations = [migrations.RunPython(know_what_they_replace, migrations.RunPython.noop)]
