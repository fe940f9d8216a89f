import django.db.models.deletion
from django.db import migrations, models

SQLITE_TEXT = "(name, description, shop, language UNINDEXED, tokenize = '{}', prefix = '2 3')"
TEXT_TABLES = {
    "sqlite": (
        [
            "CREATE VIRTUAL TABLE commerce_search_text_en USING fts5"
            + SQLITE_TEXT.format("porter unicode61 remove_diacritics 2"),
            "CREATE VIRTUAL TABLE commerce_search_text USING fts5" + SQLITE_TEXT.format("unicode61 remove_diacritics 2"),
            "CREATE VIRTUAL TABLE commerce_search_trigram USING fts5(word, content = '', tokenize = 'trigram')",
        ],
        [
            "DROP TABLE commerce_search_text_en",
            "DROP TABLE commerce_search_text",
            "DROP TABLE commerce_search_trigram",
        ],
    ),
    "postgresql": (
        [
            "ALTER TABLE commerce_search_searchdocument ADD COLUMN text tsvector",
            "CREATE INDEX commerce_search_tsvector ON commerce_search_searchdocument USING gin (text) "
            "WITH (fastupdate = off)",
        ],
        ["ALTER TABLE commerce_search_searchdocument DROP COLUMN text"],
    ),
}
RESERVED_SLUGS = ["search", "suggest"]


def create_text_tables(apps, schema_editor):
    for statement in TEXT_TABLES[schema_editor.connection.vendor][0]:
        schema_editor.execute(statement)


def drop_text_tables(apps, schema_editor):
    for statement in TEXT_TABLES[schema_editor.connection.vendor][1]:
        schema_editor.execute(statement)


def rename_reserved_slugs(apps, schema_editor):
    """Give products whose slug is now a route of the API a slug by which they are found."""
    products = apps.get_model("commerce_catalog", "Product").objects
    for product in products.filter(slug__in=RESERVED_SLUGS):
        products.filter(pk=product.pk).update(slug=f"{product.slug}-{product.pk}")


class Migration(migrations.Migration):
    initial = True
    dependencies = [("commerce_catalog", "0005_slugs_are_no_numbers")]

    operations = [
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                (
                    "product",
                    models.OneToOneField(
                        editable=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_document",
                        serialize=False,
                        to="commerce_catalog.product",
                    ),
                ),
                ("product_updated_at", models.DateTimeField(editable=False)),
                ("shop_name", models.CharField(editable=False, max_length=255)),
                ("language", models.CharField(editable=False, max_length=16)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="SearchWord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("language", models.CharField(editable=False, max_length=16)),
                ("word", models.CharField(editable=False, max_length=32)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("language", "word"), name="commerce_search_word_unique")
                ],
            },
        ),
        migrations.RunPython(create_text_tables, drop_text_tables),
        migrations.RunPython(rename_reserved_slugs, migrations.RunPython.noop),
    ]
