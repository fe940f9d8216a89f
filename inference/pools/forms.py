"""The admin form of a member. Its key is written and never shown."""

from typing import Any, ClassVar

from django import forms
from django.core.validators import RegexValidator
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminPasswordWidget, UnfoldBooleanWidget

from inference.pools.definitions import default_member_name
from inference.pools.models import CAPABILITIES, PoolMember
from inference.pools.services import KEY_OF_ANOTHER_SERVER, is_key_of_another_server
from inference.remote.configuration import API_KEY_PATTERN, is_base_url


class PoolMemberForm(forms.ModelForm):  # type: ignore[type-arg]
    """A member. An empty name is made of its URL; an empty key keeps the stored one for the same server."""

    new_api_key = forms.CharField(
        label="API key",
        required=False,
        max_length=1000,
        validators=[RegexValidator(API_KEY_PATTERN, "Use printable ASCII characters without spaces.")],
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Sent as a bearer token. It is stored encrypted and not shown again; empty keeps the stored one. "
        "A URL of another server needs its key anew.",
    )
    remove_api_key = forms.BooleanField(label="Remove the stored API key", required=False, widget=UnfoldBooleanWidget)
    capabilities = forms.MultipleChoiceField(
        choices=[(name, name) for name in CAPABILITIES], widget=UnfoldAdminCheckboxSelectMultipleWidget
    )

    class Meta:
        model = PoolMember
        fields: ClassVar[list[str]] = [
            "model_id", "name", "kind", "base_url", "new_api_key", "remove_api_key", "model_name", "max_waiting",
            "weight", "state", "capabilities", "context_size", "stream_usage", "takes_batches",
            "connect_timeout", "first_token_timeout", "token_timeout",
        ]  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].required = False
        self.fields["name"].help_text = "In lists and metrics. Empty: the host and port of its URL, or local."

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        data["name"] = data.get("name") or default_member_name(data.get("kind", ""), data.get("base_url", ""))
        self.instance.name = data["name"]
        base_url = data.get("base_url", "")
        if self.api_key() is None and is_base_url(base_url) and is_key_of_another_server(self.instance, base_url):
            self.add_error("new_api_key", KEY_OF_ANOTHER_SERVER)
        return data

    def api_key(self) -> str | None:
        """Return the key to store, an empty one to remove it, or None to keep the stored one."""
        return self.cleaned_data.get("new_api_key") or ("" if self.cleaned_data.get("remove_api_key") else None)
