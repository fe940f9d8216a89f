from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_monthly_token_limits")]

    operations = [
        migrations.AddIndex(
            model_name="apikey",
            index=models.Index(fields=["name"], name="accounts_apikey_name", opclasses=["varchar_pattern_ops"]),
        ),
    ]
