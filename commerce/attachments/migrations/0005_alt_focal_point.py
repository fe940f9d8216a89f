"""Add the alternative text and the focal point of images."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):

    dependencies = [
        ("commerce_attachments", "0004_scheduled_deletion"),
    ]

    operations = [
        migrations.AddField(
            model_name="attachment",
            name="alt",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=500, verbose_name="alternative text"
            ),
        ),
        migrations.AddField(
            model_name="attachment",
            name="focal_x",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="attachment",
            name="focal_y",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="attachment",
            constraint=models.CheckConstraint(
                condition=Q(focal_x__range=(0, 1), focal_y__range=(0, 1)) | Q(focal_x__isnull=True, focal_y__isnull=True),
                name="commerce_attachment_focal_point_inside",
            ),
        ),
    ]
