"""Models of the search index. The texts themselves are in a column or table of the database's own (`text_index`)."""

from django.db import models

from commerce.catalog.models import Product


class SearchDocument(models.Model):
    """An indexed product, with what the index has of it: the product is indexed again when one of these differs."""

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, primary_key=True, related_name="search_document", editable=False
    )
    product_updated_at = models.DateTimeField(editable=False)
    shop_name = models.CharField(max_length=255, editable=False)
    language = models.CharField(max_length=16, editable=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"Search document of product {self.product_id}"


class SearchWord(models.Model):
    """A word of the products in one language, from which misspelled words of a query are corrected."""

    language = models.CharField(max_length=16, editable=False)
    word = models.CharField(max_length=32, editable=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["language", "word"], name="commerce_search_word_unique")]

    def __str__(self) -> str:
        return self.word
