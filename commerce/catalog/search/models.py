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


class EmbeddingModel(models.Model):
    """A model of the model server with which products are or were embedded, and how far that is."""

    name = models.CharField(max_length=255, unique=True, editable=False)
    dimensions = models.PositiveIntegerField(
        null=True, editable=False, help_text="Length of the model's vectors, once it has made one."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    completed_at = models.DateTimeField(
        null=True, editable=False, help_text="When all products had a vector of this model for the first time."
    )
    taxonomy_read_at = models.DateTimeField(
        null=True, editable=False, help_text="Time up to which new names of types, categories and tags are embedded."
    )
    failed_at = models.DateTimeField(null=True, editable=False, help_text="When the model server last failed.")
    failure = models.CharField(max_length=255, blank=True, editable=False, help_text="Why it failed.")

    class Meta:
        default_permissions = ("view",)
        ordering = ["-pk"]
        verbose_name = "search model"

    def __str__(self) -> str:
        return self.name


class ProductVector(models.Model):
    """Meaning of a product's text according to a model: a vector of length 1, as 16-bit floats.

    A new vector of a product is a new row, so that readers find what has changed by the highest id that they know.
    """

    product = models.ForeignKey(
        Product, on_delete=models.CASCADE, related_name="vectors", editable=False, db_index=False
    )
    model = models.CharField(max_length=255, editable=False)
    language = models.CharField(max_length=16, editable=False)
    dimensions = models.PositiveIntegerField(editable=False)
    vector = models.BinaryField(editable=False)
    fingerprint = models.CharField(max_length=32, editable=False, help_text="Hash of the text.")
    product_updated_at = models.DateTimeField(
        null=True, editable=False, help_text="The product's last change that is embedded; null: it is embedded again."
    )

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["product", "model"], name="commerce_search_vector_unique")]
        indexes = [models.Index(fields=["model", "language", "dimensions", "id"], name="commerce_search_vector_new")]

    def __str__(self) -> str:
        return f"Vector of product {self.product_id} by {self.model}"
