"""Serializers of imports of products and variations."""

from typing import Any

from rest_framework import serializers

from shared.api.fields import IdField


class ProductImportSerializer(serializers.Serializer[Any]):
    shop_id = IdField(help_text="Id of a shop that you own or work in.")
    csv = serializers.FileField(
        help_text="CSV file in UTF-8 with the columns of an export, one line for each product. It may have fewer."
    )


class VariationImportSerializer(serializers.Serializer[Any]):
    shop_id = IdField(help_text="Id of a shop that you own or work in.")
    csv = serializers.FileField(
        help_text="CSV file in UTF-8 with the columns of an export, one line for each variation. It may have fewer."
    )


class ImportResultSerializer(serializers.Serializer[Any]):
    """Counts of the records that an import wrote."""

    created = serializers.IntegerField(min_value=0, help_text="Number of new records.")
    changed = serializers.IntegerField(min_value=0, help_text="Number of changed records.")
