"""Read-only admin pages of events and commands, without sorts that lack an index.

Known limit: users who may view the models see payloads, unless these are stored separately.
"""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.paginator import Paginator

from inboxd.contrib.django.models import (
    SettledCommand,
    SettledEvent,
    UnsettledCommand,
    UnsettledEvent,
)

_COUNTED = 10_000


class BoundedPaginator(Paginator):
    @property
    def count(self) -> int:
        return len(self.object_list.values_list("pk")[:_COUNTED])


class ReadOnlyAdmin(admin.ModelAdmin):
    uuid = ""
    paginator = BoundedPaginator
    show_full_result_count = False
    ordering = ("-id",)
    sortable_by = ()
    actions = None
    search_fields = ("id",)  # Django shows the search only if a field is named
    search_help_text = "A row's number or uuid."

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        del request
        term = search_term.strip()
        if not term:
            return queryset, False
        if term.isascii() and term.isdigit():
            return queryset.filter(id=int(term)), False
        try:
            return queryset.filter(**{self.uuid: UUID(term)}), False
        except ValueError:
            return queryset.none(), False

    def has_add_permission(self, request: Any) -> bool:
        del request
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        del request, obj
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        del request, obj
        return False


class EventAdmin(ReadOnlyAdmin):
    uuid = "event_id"
    list_display = ("id", "type", "topic", "status", "attempts", "tenant", "created_at")


class CommandAdmin(ReadOnlyAdmin):
    uuid = "command_id"
    list_display = ("id", "type", "queue", "status", "attempts", "tenant", "created_at")


admin.site.register([UnsettledEvent, SettledEvent], EventAdmin)
admin.site.register([UnsettledCommand, SettledCommand], CommandAdmin)
