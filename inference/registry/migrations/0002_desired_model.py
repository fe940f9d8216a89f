from django.db import migrations, models


class Migration(migrations.Migration):
    """Renames the model and a field in Python; the table and its columns keep their names."""

    dependencies = [
        ("inference_registry", "0001_initial"),
    ]

    operations = [
        migrations.AlterModelTable(name="wantedmodel", table="inference_registry_wantedmodel"),
        migrations.RenameModel(old_name="WantedModel", new_name="DesiredModel"),
        migrations.AlterField(
            model_name="desiredmodel", name="is_wanted", field=models.BooleanField(db_column="is_wanted")
        ),
        migrations.RenameField(model_name="desiredmodel", old_name="is_wanted", new_name="is_desired"),
    ]
