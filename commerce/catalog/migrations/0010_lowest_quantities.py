from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('commerce_catalog', '0009_more_orders_of_lists'),
    ]

    operations = [
        migrations.AddField(
            model_name='product',
            name='lowest_variation_quantity',
            field=models.IntegerField(editable=False, null=True),
        ),
    ]
