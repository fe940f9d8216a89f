"""The lowest quantity of a product's variations, and indexes by it instead of one of variations.

What the earlier version changes of variations afterwards counts from their product's next change on.
"""

from django.db import migrations, models, transaction
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce, Least

from shared.migration_operations import AddIndexBesideWrites, RemoveIndexBesideWrites

PRODUCTS_PER_UPDATE = 100
LOWEST = Least(
    Coalesce("lowest_variation_quantity", "quantity", output_field=models.IntegerField()),
    "quantity",
    output_field=models.IntegerField(),
)


def fill_lowest_quantities(apps, schema_editor):
    products = apps.get_model("commerce_catalog", "Product").objects.filter(lowest_variation_quantity=None)
    variations = apps.get_model("commerce_catalog", "Variation").objects.filter(deleted_at=None)
    lowest = Subquery(variations.filter(product=OuterRef("pk")).order_by("quantity").values("quantity")[:1])
    last = 0
    while True:
        unfilled = products.filter(pk__gt=last, pk__in=variations.values("product")).order_by("pk")
        ids = list(unfilled.values_list("pk", flat=True)[:PRODUCTS_PER_UPDATE])
        if not ids:
            return
        with transaction.atomic():
            list(products.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True))  # as orders lock them
            products.filter(pk__in=ids).update(lowest_variation_quantity=lowest)
        last = ids[-1]


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ('commerce_catalog', '0010_lowest_quantities'),
    ]

    operations = [
        migrations.RunPython(fill_lowest_quantities, migrations.RunPython.noop),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(LOWEST, models.F('quantity'), models.F('id'), name='commerce_product_lowest_stock'),
        ),
        AddIndexBesideWrites(
            model_name='product',
            index=models.Index(models.F('shop'), LOWEST, models.F('quantity'), models.F('id'), name='commerce_product_stock_of_shop'),
        ),
        RemoveIndexBesideWrites(
            model_name='product',
            name='commerce_product_low_stock',
        ),
        RemoveIndexBesideWrites(
            model_name='variation',
            name='commerce_variation_low_stock',
        ),
    ]
