from django.db import migrations

from shared.migration_operations import AddTextIndex


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("commerce_reviews", "0003_rare_values")]

    operations = [
        AddTextIndex("commerce_reviews_review", "comment", "commerce_review_text"),
        AddTextIndex("commerce_reviews_question", "question", "commerce_question_text"),
    ]
