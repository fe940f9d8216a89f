from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0003_user_name_index'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='monthly_token_limit',
            field=models.PositiveBigIntegerField(blank=True, null=True, verbose_name='tokens a month'),
        ),
        migrations.AddField(
            model_name='user',
            name='monthly_token_limit',
            field=models.PositiveBigIntegerField(blank=True, null=True, verbose_name='tokens a month'),
        ),
    ]
