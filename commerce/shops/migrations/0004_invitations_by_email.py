from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("commerce_shops", "0003_staff_invitations")]

    operations = [
        migrations.AlterField(
            model_name="staffinvitation", name="email", field=models.EmailField(db_index=True, max_length=254)
        ),
    ]
