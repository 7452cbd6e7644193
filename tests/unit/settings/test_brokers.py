"""Brokers, relays and sources of messages: defaults, problems, contradictions, descriptions."""

from pathlib import Path
from typing import Any

import pytest

from inboxd.errors import SettingsError
from inboxd.settings import Settings, describe, load, reloadable, taken_over

KAFKA = '[brokers.log]\nkind = "kafka"\nservers = ["127.0.0.1:9092"]\n'
NATS = '[brokers.bus]\nkind = "nats"\nservers = ["127.0.0.1:4222"]\n'
RABBITMQ = '[brokers.mq]\nkind = "rabbitmq"\nservers = ["127.0.0.1:5672"]\n'
OWN = '[brokers.own]\nkind = "pigeon"\n'
BROKERS = KAFKA + NATS + RABBITMQ + OWN
RELAY = '[relays.results]\nbroker = "mq"\ntypes = ["matches.result"]\n'
USERS = '[inbound.messages.users]\nbroker = "log"\nkafka_topics = ["users"]\n'
SHOP = '[inbound.messages.shop]\nbroker = "mq"\nrabbitmq_queue = "shop"\n'
STREAM = '[inbound.messages.stream]\nbroker = "bus"\nnats_stream = "USERS"\n'
B_C, C = STREAM.replace(".stream]", ".b-c]"), STREAM.replace(".stream]", ".c]")


def refusal(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, {}, docker_secrets=path.parent)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)


def shown(settings: Settings) -> dict[str, str]:
    return {key: value for key, value, _ in describe(settings)}


# --- valid settings ----------------------------------------------------------------------------


def test_minimal_settings_are_valid(written: Any) -> None:
    settings = load(written(BROKERS + RELAY + USERS + SHOP + STREAM), {})
    assert settings.relays["results"].to == "{type}.v{version}"
    assert not settings.relays["results"].pipelined
    assert settings.inbound.messages["users"].kafka_group == "inboxd"
    assert settings.inbound.messages["stream"].begin == "oldest"


def test_plugins_publisher_checks_its_own_options(written: Any) -> None:
    text = f'{OWN}options = {{ loft = "north" }}\nuser = "a"\n{RELAY}'.replace("mq", "own")
    settings = load(written(text), {})
    assert settings.brokers["own"].options == {"loft": "north"}


def test_a_token_of_nats_needs_no_user(written: Any) -> None:
    assert load(written(f'{NATS}password = "hunter2"\n'), {}).brokers["bus"].secret() == "hunter2"


def test_the_consumer_in_nats_has_the_names_of_inbox_and_source(written: Any) -> None:
    (source,) = load(written(NATS + STREAM), {}).inbound.messages.values()
    assert source.durable("users.eu") == "inboxd-users~eu"


@pytest.mark.parametrize("to", ["results", "{tenant}.{type}", "{entity_type}/{entity_id}"])
def test_a_destination_has_placeholders_or_none(written: Any, to: str) -> None:
    assert load(written(f'{RABBITMQ}{RELAY}to = "{to}"\n'), {}).relays["results"].to == to


# --- secrets -----------------------------------------------------------------------------------


def test_no_secret_is_shown(written: Any) -> None:
    settings = load(written(f'{RABBITMQ}user = "a"\npassword = "hunter2"\n'), {})
    assert "hunter2" not in f"{settings!r} {settings} {describe(settings)}"


@pytest.mark.parametrize("place", ["systemd", "docker", "both"])
def test_a_broker_without_a_password_finds_its_secret_file(
    written: Any, tmp_path: Path, place: str
) -> None:
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)} if place != "docker" else {}
    if place != "docker":
        (tmp_path / "broker_mq_password").write_text("systemd\n")
    if place != "systemd":
        (tmp_path / "inboxd_broker_mq_password").write_text("docker\n")
    settings = load(written(f'{RABBITMQ}user = "a"\n'), environ, docker_secrets=tmp_path)
    assert settings.brokers["mq"].secret() == ("docker" if place == "docker" else "systemd")
    place_of_it = settings.source_of("brokers.mq.password_file")
    assert place_of_it == str(settings.brokers["mq"].password_file)


def test_password_file_of_the_settings_wins_over_a_found_secret_file(
    written: Any, tmp_path: Path
) -> None:
    (tmp_path / "inboxd_broker_mq_password").write_text("found")
    named = tmp_path / "named"
    named.write_text("named")
    text = f'{RABBITMQ}user = "a"\npassword_file = "{named}"\n'
    settings = load(written(text), {}, docker_secrets=tmp_path)
    assert settings.brokers["mq"].secret() == "named"


# --- invalid values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (f'{RELAY}to = "{{typ}}"\n', "[relays.results] to: only {type}, {version}, {tenant}, "),
        (f'{RELAY}to = "a}}"\n', "[relays.results] to: only {type}, "),
        (f'{RELAY}to = ""\n', "[relays.results] to: must have at least 1 character"),
        ('[brokers."a b"]\n', "[brokers] a b: the name of a broker is a part of other names"),
        ('[relays."a b"]\n', "[relays] a b: the name of a relay is a part of other names"),
        ('[brokers.mq]\nkind = "Kafka"\n', "[brokers.mq] kind: must match the pattern"),
        ('[brokers.mq]\npassword = ["hunter2"]\n', "[brokers.mq] password: "),
        (f'{USERS}headers = ["Cookie"]\n', "cookie is never kept"),
    ],
)
def test_a_mistake_is_reported_with_what_is_allowed(written: Any, lines: str, told: str) -> None:
    path = written(lines)
    (message,) = refusal(path).splitlines()
    assert message.startswith(f"{path}: [")
    assert told in message


# --- contradictions ----------------------------------------------------------------------------


def kafka(**more: str) -> str:
    return KAFKA + "".join(f"{key} = {value}\n" for key, value in more.items())


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("[brokers.mq]\n", "kind is missing; set it to one of kafka, nats, rabbitmq"),
        ('[brokers.mq]\nkind = "nats"\n', 'servers is empty; set servers = ["host:port"]'),
        (KAFKA.replace("127.0.0.1:9092", "a"), "'a' in servers is not \"host:port\""),
        (KAFKA.replace("127", "kafka://127"), "'kafka://127.0.0.1:9092' in servers is not"),
        (
            KAFKA.replace("127", "a:hunter2@127"),
            "servers must not hold a login, since they are shown",
        ),
        (f'{NATS}mechanism = "plain"\n', "mechanism is for kafka, and this broker is nats"),
        (kafka(virtual_host='"/a"'), "virtual_host is for rabbitmq, and this broker is kafka"),
        (kafka(options="{ a = 1 }"), "options is for publishers of plugins, and this one is kafka"),
        (
            kafka(user='"a"', password='"hunter2"', password_file='"/a"'),
            "password and password_file are both set; leave one out",
        ),
        (
            f'{OWN}password = "hunter2"\npassword_file = "/a"\n',
            "password and password_file are both set; leave one out",
        ),
        (kafka(user='"a"'), "set password_file, or give the file broker_log_password"),
        (kafka(password='"hunter2"'), "a password needs a user; set user"),
        (
            kafka(user='"a"', password='"hunter2"', mechanism='"plain"'),
            'mechanism = "plain" needs tls = true',
        ),
        (kafka(tls="true", tls_cert='"/a"'), "tls_cert and tls_key belong together"),
        (kafka(tls="true", tls_key='"/a"'), "tls_cert and tls_key belong together"),
        (kafka(tls_ca='"/a"'), "tls_ca needs tls = true: without it nothing is encrypted"),
    ],
)
def test_contradiction_in_a_broker_is_refused(written: Any, lines: str, told: str) -> None:
    path = written(lines)
    (message,) = refusal(path).splitlines()
    assert "[brokers." in message
    assert told in message


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('types = ["a"]', "broker is missing; set it to the name of one of [brokers]"),
        ('types = ["a"]\nbroker = "bu"', "there is no [brokers.bu]; did you mean 'bus'?"),
        ('types = ["a"]\nbroker = "elsewhere"', "there is no [brokers.elsewhere]; add it"),
        ('broker = "mq"', "types is empty, so nothing is published"),
        (
            'types = ["a"]\nbroker = "bus"\nexchange = "b"',
            "exchange is for rabbitmq, and broker 'bus' is nats; leave it out",
        ),
        (
            'types = ["a"]\nbroker = "own"\nexchange = "b"',
            "exchange is for rabbitmq, and broker 'own' is pigeon; leave it out",
        ),
        (
            'types = ["a"]\nbroker = "bus"\npipelined = true',
            "pipelined is not for nats, the kind of broker 'bus': a stream drops messages",
        ),
    ],
)
def test_contradiction_in_a_relay_is_refused(written: Any, lines: str, told: str) -> None:
    path = written(f"{BROKERS}[relays.a]\n{lines}\n")
    (message,) = refusal(path).splitlines()
    assert message.startswith(f"{path}: [relays.a]: ")
    assert told in message


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (USERS.replace('"log"', '""'), "broker is missing"),
        (USERS.replace('"log"', '"lag"'), "there is no [brokers.lag]; did you mean 'log'?"),
        (USERS.replace('"log"', '"own"'), "broker 'own' is pigeon, which has no consumer"),
        (USERS.replace('"users"', ""), "kafka_topics is missing: broker 'log' is kafka"),
        (f'{USERS}nats_stream = "A"\n', "nats_stream is for nats, and broker 'log' is kafka"),
        (f'{USERS}rabbitmq_queue = "a"\n', "rabbitmq_queue is for rabbitmq, and broker 'log'"),
        (f'{SHOP}kafka_group = "a"\n', "kafka_group is for kafka, and broker 'mq' is rabbitmq"),
        (f'{SHOP}nats_durable = "a"\n', "nats_durable is for nats, and broker 'mq' is rabbitmq"),
        (f'{SHOP}begin = "newest"\n', "begin is for streams, not for a RabbitMQ queue"),
        (
            SHOP.replace('rabbitmq_queue = "shop"', ""),
            "rabbitmq_queue or rabbitmq_stream is missing: broker 'mq' is rabbitmq, so set it",
        ),
        (
            f'{SHOP}rabbitmq_stream = "a"\n',
            "rabbitmq_queue and rabbitmq_stream are both set; leave one out",
        ),
        (f"{SHOP}prefetch = 999\n", "page_rows (1000) is more than prefetch (999)"),
        (f'{SHOP}type = "a"\ntype_from = "pointer:/t"\n', "type and type_from are both set"),
        (
            f'{SHOP}type = "a"\ntype_prefix = "b."\n',
            "type_prefix is not for type: write the prefix into",
        ),
        (f'{SHOP}body = "text"\ntenant = "pointer:/t"\n', 'tenant is a pointer, but body = "text'),
        (
            f'{SHOP}[inbound.webhooks.shop]\ntype = "a"\nscheme = "own"\n',
            "[inbound.webhooks.shop] has the same name, which events carry as their source",
        ),
        (
            USERS + USERS.replace(".users]", ".others]"),
            "[inbound.messages.users] consumes the Kafka topic 'users' in the same group",
        ),
        (
            f'{B_C}{C}nats_durable = "inboxd-b"\n',
            "[inbound.messages.b-c] has the same consumer in NATS, 'inboxd-b-c'",
        ),
        (
            SHOP + SHOP.replace(".shop]", ".mall]"),
            "[inbound.messages.shop] consumes the queue 'shop' as well",
        ),
    ],
)
def test_contradiction_in_a_source_is_refused(written: Any, lines: str, told: str) -> None:
    path = written(BROKERS + lines)
    (message,) = refusal(path).splitlines()
    assert message.startswith(f"{path}: [inbound.messages.")
    assert told in message


@pytest.mark.parametrize(
    "lines",
    [
        USERS + USERS.replace(".users]", ".others]") + 'kafka_group = "b"\n',
        USERS + USERS.replace(".users]", ".others]").replace('["users"]', '["others"]'),
        STREAM + STREAM.replace(".stream]", ".others]"),
        f'{B_C}{C.replace("USERS", "OTHERS")}nats_durable = "inboxd-b"\n',
        SHOP + SHOP.replace(".shop]", ".mall]").replace('queue = "shop"', 'queue = "mall"'),
        '[brokers.more]\nkind = "rabbitmq"\nservers = ["127.0.0.1:5673"]\n'
        + SHOP
        + SHOP.replace(".shop]", ".mall]").replace('"mq"', '"more"'),
    ],
)
def test_sources_that_share_nothing_are_valid(written: Any, lines: str) -> None:
    load(written(BROKERS + lines), {})


@pytest.mark.parametrize("lines", [RELAY + 'exchange = "a"\n', SHOP + 'begin = "oldest"\n'])
def test_a_mistake_in_a_broker_contradicts_nothing(written: Any, lines: str) -> None:
    path = written(f"{RABBITMQ}kid = 1\n{lines}")
    (message,) = refusal(path).splitlines()
    assert "[brokers.mq]: unknown setting 'kid'" in message


# --- description and reload --------------------------------------------------------------------


def test_meaning_of_an_empty_list_is_shown(written: Any) -> None:
    found = shown(load(written(BROKERS + STREAM), {}))
    assert found["inbound.messages.stream.nats_subjects"] == "(all)"
    assert found["inbound.messages.stream.topics"] == "(those that subscribe to the type)"
    assert found["inbound.messages.stream.kafka_topics"] == "(none)"


def test_reload_changes_no_brokers_relays_or_message_sources(written: Any) -> None:
    old = load(written(BROKERS + RELAY + SHOP), {})
    text = BROKERS.replace("5672", "5673") + f"{RELAY}pipelined = true\n{SHOP}prefetch = 3000\n"
    new = load(written(text), {})
    changes = reloadable(old, new)
    assert changes.live == ()
    assert set(changes.restart) == {
        "brokers.mq.servers",
        "relays.results.pipelined",
        "inbound.messages.shop.prefetch",
    }
    assert reloadable(old, taken_over(old, new)) == type(changes)((), ())
