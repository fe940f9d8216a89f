from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_apikey_limits")]

    operations = [
        migrations.AddIndex(
            model_name="user",
            index=models.Index(fields=["name"], name="accounts_user_name", opclasses=["varchar_pattern_ops"]),
        ),
    ]
