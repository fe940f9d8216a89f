"""A case for every content that was reported before there were cases."""

from django.db import migrations
from django.db.models import Count, Max, Min, Q, Sum

KINDS = {"Review": "review", "Question": "question"}
BATCH = 500


def make_cases(apps, schema_editor):
    report = apps.get_model("commerce_moderation", "AbuseReport")
    case = apps.get_model("commerce_moderation", "Case")
    for kind, name in KINDS.items():
        groups = list(
            report.objects.filter(model_type=kind, status="open")
            .order_by()
            .values("model_id")
            .annotate(
                count=Count("pk"),
                weights=Sum("weight"),
                trusted=Count("pk", filter=Q(standing="trusted")),
                newest=Max("created_at"),
                oldest=Min("created_at"),
            )
        )
        model = apps.get_model("commerce_reviews", name)
        for start in range(0, len(groups), BATCH):
            of_id = {group["model_id"]: group for group in groups[start : start + BATCH]}
            contents = model.objects.filter(pk__in=list(of_id)).select_related("product")
            case.objects.bulk_create(_case(case, kind, content, of_id[content.pk]) for content in contents)


def _case(case, kind, content, group):
    is_there = content.deleted_at is None
    return case(
        model_type=kind,
        model_id=content.pk,
        author_id=content.user_id,
        shop_id=content.shop_id,
        language=content.product.language,
        state="open" if is_there else "closed",
        is_waiting=is_there,
        reports_count=group["count"],
        weight=group["weights"],
        trusted_count=group["trusted"],
        newest_at=group["newest"],
        oldest_at=group["oldest"],
        created_at=group["oldest"],
        updated_at=group["newest"],
    )


class Migration(migrations.Migration):

    dependencies = [
        ("commerce_moderation", "0002_cases"),
        ("commerce_reviews", "0002_hidden_for_now"),
        ("commerce_catalog", "0003_lists_by_price"),
    ]

    operations = [migrations.RunPython(make_cases, migrations.RunPython.noop)]
