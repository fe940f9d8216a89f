"""The wire shapes of POST /generate-descriptions."""

from typing import Any

from rest_framework import serializers

from commerce.descriptions.prompts import Brief


class DescriptionRequestSerializer(serializers.Serializer[Any]):
    """What is asked: a product's name, or in `prompt` a whole request in one's own words."""

    product_name = serializers.CharField(max_length=255, required=False, help_text="Required unless prompt is given.")
    prompt = serializers.CharField(max_length=1000, required=False, help_text="Used when product_name is absent.")
    keywords = serializers.ListField(child=serializers.CharField(max_length=64), max_length=20, default=list)
    tone = serializers.CharField(max_length=32, default="", allow_blank=True)
    language = serializers.RegexField(r"\A[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z", default="en", help_text="As in en, pt-BR.")
    max_words = serializers.IntegerField(min_value=10, max_value=200, required=False)
    product_id = serializers.IntegerField(min_value=1, required=False, help_text="Saves the text as a draft of it.")
    stream = serializers.BooleanField(
        default=False, help_text="true: server-sent events with the text as it is written."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "product_name" not in attrs and "prompt" not in attrs:
            raise serializers.ValidationError({"product_name": ["The name of the product is required."]})
        return attrs

    def brief(self) -> Brief:
        """The validated request, as the prompt takes it."""
        asked = self.validated_data
        return Brief(
            product_name=asked.get("product_name", ""),
            request="" if "product_name" in asked else asked["prompt"],
            keywords=tuple(asked["keywords"]),
            tone=asked["tone"],
            language=asked["language"],
            max_words=asked.get("max_words"),
        )


class DescriptionSerializer(serializers.Serializer[Any]):
    """What is answered. `result` is the same text, under the name that older clients read."""

    description = serializers.CharField()
    status = serializers.ChoiceField(choices=["success"])
    result = serializers.CharField()
    draft_id = serializers.IntegerField(required=False, help_text="Only when product_id was given.")
