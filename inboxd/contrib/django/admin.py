"""The admin's pages of events and commands: to look, and to look up, and nothing else.

Promises: no page counts further than 10,000 rows, nor sorts what no index has in order; a search is
for a number or a uuid. Known limit: whoever may view the models sees payloads, unless stored apart.
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
    """Counts no further than it has to."""

    @property
    def count(self) -> int:
        """The rows, at most 10,000."""
        return len(self.object_list.values_list("pk")[:_COUNTED])


class ReadOnlyAdmin(admin.ModelAdmin):
    """To look only. uuid: the field of the row's own uuid."""

    uuid = ""
    paginator = BoundedPaginator
    show_full_result_count = False
    ordering = ("-id",)
    sortable_by = ()
    actions = None
    search_fields = ("id",)  # without one there is no field to search by
    search_help_text = "A row's number or uuid."

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """By what an index has."""
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
        """Nobody has."""
        del request
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Nobody has: the page of a row is one to look at."""
        del request, obj
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Nobody has."""
        del request, obj
        return False


class EventAdmin(ReadOnlyAdmin):
    """Events."""

    uuid = "event_id"
    list_display = ("id", "type", "topic", "status", "attempts", "tenant", "created_at")


class CommandAdmin(ReadOnlyAdmin):
    """Commands."""

    uuid = "command_id"
    list_display = ("id", "type", "queue", "status", "attempts", "tenant", "created_at")


admin.site.register([UnsettledEvent, SettledEvent], EventAdmin)
admin.site.register([UnsettledCommand, SettledCommand], CommandAdmin)
