"""Rename models and fields in Python only: tables and columns keep their names, so this executes no SQL on them."""

from django.db import migrations, models

RENAMED_MODELS = [
    ("Entry", "LedgerEntry", "commerce_analytics_entry"),
    ("Figure", "PeriodRollup", "commerce_analytics_figure"),
    ("ProductFigure", "ProductRollup", "commerce_analytics_productfigure"),
    ("ChainShop", "OwnerGroupShop", "commerce_analytics_chainshop"),
    ("Books", "RollupState", "commerce_analytics_books"),
]
RENAMED_FIELDS = [("folded_at", "aggregated_at"), ("chains_folded_at", "owner_groups_aggregated_at")]


class Migration(migrations.Migration):
    dependencies = [("commerce_analytics", "0003_chains")]

    operations = [
        *(migrations.AlterModelTable(name=old, table=table) for old, _, table in RENAMED_MODELS),
        *(migrations.RenameModel(old_name=old, new_name=new) for old, new, _ in RENAMED_MODELS),
        *(
            operation
            for old, new in RENAMED_FIELDS
            for operation in (
                migrations.AlterField("rollupstate", old, models.DateTimeField(null=True, db_column=old)),
                migrations.RenameField("rollupstate", old, new),
            )
        ),
        migrations.AlterModelOptions(name="ledgerentry", options={"verbose_name_plural": "ledger entries"}),
        migrations.AlterModelOptions(name="rollupstate", options={}),
    ]
