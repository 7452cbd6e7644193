"""`inboxd config`: help with writing the settings file; `inboxd check` checks the settings."""

from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import examples
from inboxd.cli.output import print_json

app = CommandGroup(no_args_is_help=True, help="Help with writing the settings file.")


@app.callback()
def _config() -> None:
    """Make this a group although it has only one command."""


@app.command("schema", epilog=examples("inboxd config schema > config.schema.json"))
def schema() -> None:
    """Print the JSON schema of the settings file, for editors that complete and check TOML.

    Editors find the schema by the first line of the file: #:schema ./config.schema.json
    """
    from inboxd.settings.json_schema import json_schema

    print_json(json_schema(), indent=True)
