"""Forms of the first steps. Each says which service it calls with what."""

from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from django import forms
from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from commerce.catalog.models import Product, ProductType
from commerce.catalog.services import create_product
from commerce.onboarding.progress import OwnerProgress
from commerce.shops.invitations import invite_staff
from commerce.shops.services import create_shop
from shared.accounts.models import User
from shared.api.money import MAX_PRICE, InvalidMoney, to_minor

MAX_QUANTITY = 1_000_000
MAX_PRICE_DIGITS = 20  # Decimal overflows at an exponent such as 1e9999999


class StepForm(forms.Form):
    """The form of one step."""

    step: ClassVar[str]
    template_name = "onboarding/_fields.html"

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data, auto_id=f"{self.step}-%s")

    def take_step(self, *, user: User, progress: OwnerProgress, now: datetime) -> None:
        """Do what the form says. Raise ApiError."""
        raise NotImplementedError


class ShopForm(StepForm):
    step = "shop"
    name = forms.CharField(label=_("Name of the shop"), max_length=255)
    description = forms.CharField(
        label=_("What it sells"), max_length=20_000, required=False, widget=forms.Textarea(attrs={"rows": 3})
    )

    def take_step(self, *, user: User, progress: OwnerProgress, now: datetime) -> None:
        if progress.shop is None:  # else the form was sent twice
            create_shop(actor=user, values=self.cleaned_data)


class FirstProductForm(StepForm):
    step = "product"
    name = forms.CharField(label=_("Name of the product"), max_length=255)
    type = forms.ModelChoiceField(label=_("Product type"), queryset=ProductType.objects.order_by("name", "pk"))
    price = forms.DecimalField(label=_("Price"), min_value=0, max_digits=MAX_PRICE_DIGITS)
    quantity = forms.IntegerField(label=_("Pieces in stock"), min_value=0, max_value=MAX_QUANTITY, initial=1)
    is_offered = forms.BooleanField(label=_("Offer it at once"), required=False, initial=True)

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.fields["price"].label = _("Price in %(currency)s") % {"currency": settings.CURRENCY}

    def clean_price(self) -> int:
        """Return the price in minor units."""
        price: Decimal = self.cleaned_data["price"]
        try:
            minor = to_minor(price.normalize(), settings.CURRENCY)
        except InvalidMoney as error:
            raise forms.ValidationError(str(error)) from None
        if minor > MAX_PRICE:
            raise forms.ValidationError(_("This amount is too large."))
        return minor

    def take_step(self, *, user: User, progress: OwnerProgress, now: datetime) -> None:
        shop = progress.require_shop()
        if progress.product is not None:
            return
        kind: ProductType = self.cleaned_data["type"]
        values = {name: self.cleaned_data[name] for name in ("name", "price", "quantity")}
        values["status"] = Product.Status.PUBLISH if self.cleaned_data["is_offered"] else Product.Status.DRAFT
        values |= {"type_id": kind.pk, "language": kind.language}
        create_product(actor=user, shop_id=shop.pk, values=values, now=now)


class StaffForm(StepForm):
    step = "staff"
    email = forms.EmailField(label=_("E-mail of a colleague"), max_length=254)

    def take_step(self, *, user: User, progress: OwnerProgress, now: datetime) -> None:
        invite_staff(actor=user, shop_id=progress.require_shop().pk, email=self.cleaned_data["email"], now=now)


FORMS: dict[str, type[StepForm]] = {form.step: form for form in (ShopForm, FirstProductForm, StaffForm)}
