"""The app: `"inboxd.contrib.django"` in INSTALLED_APPS."""

from django.apps import AppConfig


class InboxConfig(AppConfig):
    name = "inboxd.contrib.django"
    label = "inboxd"
    verbose_name = "inboxd"
    default_auto_field = "django.db.models.BigAutoField"
