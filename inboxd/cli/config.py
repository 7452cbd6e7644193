"""`inboxd config`: about the settings file itself; `inboxd check` looks at what is in force."""

from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import examples
from inboxd.cli.output import print_json

app = CommandGroup(no_args_is_help=True, help="Help to write the settings file.")


@app.callback()
def _config() -> None:
    """A group, though there is one command."""


@app.command("schema", epilog=examples("inboxd config schema > config.schema.json"))
def schema() -> None:
    """Print the JSON schema of the settings file, for editors that complete and check TOML.

    They find it by the first line of the file: #:schema ./config.schema.json
    """
    from inboxd.settings.json_schema import json_schema

    print_json(json_schema(), indent=True)
