"""The admin of pools: their members, what is wrong with them, and their settings."""

from collections.abc import Iterable, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import display
from unfold.views import ChangeList

from inference.pools import services
from inference.pools.cache import member_of
from inference.pools.forms import PoolMemberForm
from inference.pools.models import PoolMember
from inference.pools.states import DRAINING, FAILED, READY, MemberState, read_states
from shared.accounts.models import User

State = PoolMember.State
COLORS = {READY: "success", FAILED: "danger", DRAINING: "warning"}


class PoolMemberChangeList(ChangeList):
    """Change list whose members have the states that this process finds them in."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        for row, state in zip(self.result_list, _read_states(self.result_list), strict=True):
            row.found_state = state


@admin.register(PoolMember)
class PoolMemberAdmin(ModelAdmin):
    """The members of all pools. Keys are neither shown nor searchable."""

    form = PoolMemberForm
    list_display = ["model_id", "name", "base_url", "kind", "max_waiting", "weight", "shown_state", "found", "running"]
    list_display_links = ["name"]
    list_filter = ["state", "kind"]
    search_fields = ["model_id", "name"]
    actions = ["drain", "enable", "check_now"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return PoolMemberChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return "api_key" not in lookup and super().lookup_allowed(lookup, value, request)

    def save_model(self, request: HttpRequest, obj: PoolMember, form: PoolMemberForm, change: bool) -> None:
        services.save_member(member=obj, api_key=form.api_key(), actor=_actor(request), now=timezone.now())

    def delete_model(self, request: HttpRequest, obj: PoolMember) -> None:
        services.remove_member(member=obj, actor=_actor(request), now=timezone.now())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PoolMember]) -> None:
        for member in queryset:
            self.delete_model(request, member)

    @display(description="State", label=COLORS)  # type: ignore[untyped-decorator]
    def shown_state(self, member: Any) -> str:
        return str(member.found_state.state)

    @admin.display(description="What is wrong")
    def found(self, member: Any) -> str:
        return member.found_state.error or member.found_state.warning or "-"

    @admin.display(description="Requests of this process")
    def running(self, member: Any) -> int:
        return int(member.found_state.requests)

    @admin.action(description="Drain selected members: they get no new requests")
    def drain(self, request: HttpRequest, members: QuerySet[PoolMember]) -> None:
        self._set_state(request, members, State.DRAINING)

    @admin.action(description="Enable selected members")
    def enable(self, request: HttpRequest, members: QuerySet[PoolMember]) -> None:
        self._set_state(request, members, State.ENABLED)

    @admin.action(description="Check selected members now")
    def check_now(self, request: HttpRequest, members: QuerySet[PoolMember]) -> None:
        for state in _read_states(members, check=True):
            level = messages.ERROR if state.error else messages.WARNING if state.warning else messages.SUCCESS
            name = "/".join(state.member.key)
            self.message_user(request, f"{name}: {state.error or state.warning or 'it answers.'}", level)

    def _set_state(self, request: HttpRequest, members: Iterable[PoolMember], state: State) -> None:
        now = timezone.now()
        for member in members:
            services.set_member_state(member=member, state=state, actor=_actor(request), now=now)


def _read_states(members: Iterable[PoolMember], *, check: bool = False) -> Sequence[MemberState]:
    found: Sequence[MemberState] = async_to_sync(read_states)([member_of(member) for member in members], check=check)
    return found


def _actor(request: HttpRequest) -> User:
    actor: Any = request.user
    return actor  # type: ignore[no-any-return]
