from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('commerce_reviews', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='question',
            name='hidden_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='review',
            name='hidden_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
