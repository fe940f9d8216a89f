"""What the admin's pages send: how a description should be, and what became of it."""

import re
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from commerce.catalog.models import Product
from commerce.descriptions.jobs import Wishes
from commerce.descriptions.prompts import Brief
from commerce.descriptions.services import LONGEST_TEXT

MOST_KEYWORDS = 20
LONGEST_KEYWORD = 64
LANGUAGE = r"\A[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z"


class WishesForm(forms.Form):
    """Tone, length, language and keywords; as the API has them, but for the keywords, which are one line."""

    tone = forms.CharField(max_length=32, required=False)
    max_words = forms.IntegerField(min_value=10, max_value=200, required=False)
    language = forms.CharField(max_length=11)
    keywords = forms.CharField(max_length=MOST_KEYWORDS * (LONGEST_KEYWORD + 1), required=False)

    def clean_language(self) -> str:
        language = str(self.cleaned_data["language"])
        if not re.match(LANGUAGE, language):
            raise forms.ValidationError(_("Write the language as in en or pt-BR."))
        return language

    def clean_keywords(self) -> tuple[str, ...]:
        keywords = tuple(filter(None, (word.strip() for word in self.cleaned_data["keywords"].split(","))))
        if len(keywords) > MOST_KEYWORDS or any(len(keyword) > LONGEST_KEYWORD for keyword in keywords):
            raise forms.ValidationError(_("Name at most 20 keywords of 64 characters, with commas between them."))
        return keywords

    def brief(self, product: Product) -> Brief:
        """What is asked for this product."""
        return Brief(product_name=product.name, **self.cleaned_data)


class JobForm(WishesForm):
    """The same for many products. Without a language each description is in its product's."""

    language = forms.CharField(max_length=11, required=False)

    def clean_language(self) -> str:
        return super().clean_language() if self.cleaned_data["language"] else ""

    def wishes(self) -> Wishes:
        return Wishes(**self.cleaned_data)


class TextForm(forms.Form):
    text = forms.CharField(max_length=LONGEST_TEXT)

    def clean_text(self) -> str:
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")


def first_error(form: forms.Form) -> str:
    """What to tell somebody whose form is not right."""
    errors: dict[str, Any] = form.errors.get_json_data()
    return next(str(error["message"]) for found in errors.values() for error in found)
