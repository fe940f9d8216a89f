"""Lists of users and their keys with all features of lists."""

from typing import ClassVar

from django.db.models import Prefetch
from django.db.models.expressions import RawSQL
from django.urls import path
from rest_framework import serializers
from rest_framework.generics import ListAPIView, RetrieveAPIView
from rest_framework.permissions import AllowAny

from shared.accounts.models import ApiKey, User
from shared.api.lists.filters import IntegerFilter, LanguageFilter, ListFilterBackend, ListFilterSet
from shared.api.lists.pagination import ArrayPagination, PagePagination
from shared.api.lists.relations import RelationsSerializer

# Count up to a number: a query of any duration.
COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT max(i) FROM n"


class KeyRecord(RelationsSerializer):
    class Meta:
        model = ApiKey
        fields = ["name"]


class UserRecord(RelationsSerializer):
    api_keys = KeyRecord(many=True, read_only=True)
    rank = serializers.ReadOnlyField[int]()

    class Meta:
        model = User
        fields = ["id", "name", "api_keys", "rank"]
        relations = ["api_keys", "rank"]


class KeyWithUser(RelationsSerializer):
    user = UserRecord(read_only=True)

    class Meta:
        model = ApiKey
        fields = ["id", "name", "user"]
        relations = ["user"]


class UserFilters(ListFilterSet):
    search_fields = {
        "id": "id",
        "name": "name",
        "role": "role",
        "active": "is_active",
        "version": "token_version",
        "api_keys.name": "api_keys__name",
    }
    order_fields = {"name": "name", "last_login": "last_login"}
    relations: ClassVar = {"api_keys": lambda user: Prefetch("api_keys", ApiKey.objects.order_by("name"))}
    version = IntegerFilter("token_version")


class KeyFilters(ListFilterSet):
    search_fields = {"user.email": "user__email", "user_id": "user_id"}
    relations: ClassVar = {"user": "user", "user.api_keys": "user__api_keys"}
    language = LanguageFilter("name")


class Public:
    authentication_classes: ClassVar = []
    permission_classes: ClassVar = [AllowAny]
    filter_backends: ClassVar = [ListFilterBackend]


class UserArray(Public, ListAPIView[User]):
    queryset = User.objects.order_by("id")
    serializer_class = UserRecord
    filterset_class = UserFilters
    pagination_class = ArrayPagination


class UserPages(UserArray):
    pagination_class = PagePagination


class EndlessPages(UserPages):
    """List whose first row takes the database forever."""

    queryset = UserPages.queryset.annotate(last=RawSQL(f"({COUNTING % 10**10})", [])).filter(last__gt=0)  # noqa: S611


class EndlessArray(UserArray):
    queryset = EndlessPages.queryset


class OneUser(Public, RetrieveAPIView[User]):
    queryset = User.objects.all()
    serializer_class = UserRecord
    filterset_class = UserFilters


class KeyArray(Public, ListAPIView[ApiKey]):
    queryset = ApiKey.objects.order_by("id")
    serializer_class = KeyWithUser
    filterset_class = KeyFilters
    pagination_class = ArrayPagination


class PlainArray(Public, ListAPIView[User]):
    queryset = User.objects.order_by("id")
    serializer_class: type[serializers.ModelSerializer[User]] = UserRecord
    pagination_class = ArrayPagination


urlpatterns = [
    path("users", UserArray.as_view()),
    path("pages", UserPages.as_view()),
    path("endless", EndlessPages.as_view()),
    path("endless-array", EndlessArray.as_view()),
    path("users/<id:pk>", OneUser.as_view()),
    path("keys", KeyArray.as_view()),
    path("plain", PlainArray.as_view()),
]
