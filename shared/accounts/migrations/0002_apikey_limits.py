from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='request_limit',
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name='requests a minute'),
        ),
        migrations.AddField(
            model_name='apikey',
            name='token_limit',
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name='tokens a minute'),
        ),
        migrations.AddField(
            model_name='apikey',
            name='concurrency_limit',
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name='requests at once'),
        ),
    ]
