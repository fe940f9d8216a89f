"""Forms of the admin pages: the style of descriptions, and an edited text."""

import re
from typing import Any

from django import forms
from django.utils.translation import gettext as _

from commerce.catalog.models import Product
from commerce.descriptions.jobs.services import DescriptionOptions
from commerce.descriptions.text.plain_text import MAX_DESCRIPTION_LENGTH
from commerce.descriptions.text.prompts import (
    LANGUAGE_PATTERN,
    MAX_KEYWORD_LENGTH,
    MAX_KEYWORDS_COUNT,
    DescriptionRequest,
)


class OptionsForm(forms.Form):
    """Tone, length, language and keywords. As in the API, except that the keywords are one line."""

    tone = forms.CharField(max_length=32, required=False)
    max_words = forms.IntegerField(min_value=10, max_value=200, required=False)
    language = forms.CharField(max_length=11)
    keywords = forms.CharField(max_length=MAX_KEYWORDS_COUNT * (MAX_KEYWORD_LENGTH + 1), required=False)

    def clean_language(self) -> str:
        language = str(self.cleaned_data["language"])
        if not re.match(LANGUAGE_PATTERN, language):
            raise forms.ValidationError(_("Enter a language code, such as en or pt-BR."))
        return language

    def clean_keywords(self) -> tuple[str, ...]:
        keywords = tuple(filter(None, (word.strip() for word in self.cleaned_data["keywords"].split(","))))
        if len(keywords) > MAX_KEYWORDS_COUNT or any(len(keyword) > MAX_KEYWORD_LENGTH for keyword in keywords):
            raise forms.ValidationError(_("Enter at most 20 keywords of up to 64 characters, separated by commas."))
        return keywords

    def to_request(self, product: Product) -> DescriptionRequest:
        """Return the description request for this product."""
        return DescriptionRequest(product_name=product.name, **self.cleaned_data)


class JobForm(OptionsForm):
    """The options of a job. Without a language, each description is in its product's own."""

    language = forms.CharField(max_length=11, required=False)

    def clean_language(self) -> str:
        return super().clean_language() if self.cleaned_data["language"] else ""

    def to_options(self) -> DescriptionOptions:
        return DescriptionOptions(**self.cleaned_data)


class TextForm(forms.Form):
    """The edited text of a draft."""

    text = forms.CharField(max_length=MAX_DESCRIPTION_LENGTH)

    def clean_text(self) -> str:
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")


def first_error(form: forms.Form) -> str:
    """Return the first message of an invalid form."""
    errors: dict[str, Any] = form.errors.get_json_data()
    return next(str(error["message"]) for field_errors in errors.values() for error in field_errors)
