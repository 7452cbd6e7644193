"""Files of `deploy/`: systemd accepts the units, and the units agree with each other."""

import re
import shutil
import subprocess
import textwrap
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from inboxd.daemon.sockets import BACKLOG, INBOUND
from inboxd.settings import Admin, Settings, load
from tests.support.waiting import patient

DEPLOY = Path(__file__).parents[2] / "deploy"
SPOOL_PAGE = DEPLOY.parent / "docs" / "spool.md"
SERVICES = ("inboxd.service", "inboxd@.service", "inboxd-receive.service")


def lines_of(name: str) -> list[str]:
    """The lines of a unit, without comments."""
    lines = (DEPLOY / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def value(name: str, key: str) -> str:
    [found] = [line.partition("=")[2] for line in lines_of(name) if line.startswith(f"{key}=")]
    return found


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not installed: apt install systemd")
    for unit in (*SERVICES, "inboxd-receive.socket"):
        text = (DEPLOY / unit).read_text()
        # `systemd-analyze` looks for the program at the path of the unit.
        (tmp_path / unit).write_text(text.replace("/opt/inboxd/bin/inboxd", "/bin/true"))
    units = [unit.replace("@", "@mails") for unit in (*SERVICES, "inboxd-receive.socket")]
    done = subprocess.run(
        [analyze, "verify", *(str(tmp_path / unit) for unit in units)],
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", SERVICES[1:])
def test_all_units_have_the_same_restrictions(service: str) -> None:
    def rules(name: str) -> list[str]:
        lines = lines_of(name)
        return lines[lines.index("DynamicUser=yes") : lines.index("[Install]")]

    assert rules(service) == rules(SERVICES[0])


def test_socket_unit_has_the_name_that_the_program_expects() -> None:
    assert value("inboxd-receive.socket", "FileDescriptorName") == INBOUND
    assert value("inboxd-receive.socket", "Backlog") == str(BACKLOG)


@pytest.mark.parametrize("service", SERVICES)
def test_only_the_main_process_gets_stop_and_reload(service: str) -> None:
    assert value(service, "KillMode") == "mixed"
    assert value(service, "ExecReload") == "/bin/kill -HUP $MAINPID"
    assert value(service, "RestartPreventExitStatus") == "78"
    assert re.match(r"/opt/inboxd/bin/inboxd (run|receive) ", value(service, "ExecStart"))


def test_ports_of_units_differ_from_defaults_of_other_listeners() -> None:
    """Worker and receiver run on one host, and may have any of the listeners."""
    given = re.findall(r"INBOXD_HTTP__PORT=(\d+)", (DEPLOY / SERVICES[-1]).read_text())
    assert given
    others = load(None, {})
    taken = {others.http.port, others.inbound.http.port, others.admin.port}
    assert not taken & set(map(int, given))


@pytest.mark.parametrize("service", SERVICES)
def test_core_files_are_disabled(service: str) -> None:
    assert value(service, "LimitCORE") == "0"


# The logins that the files create, and the role of each.
LOGIN = re.compile(r"CREATE ROLE (\w+) LOGIN PASSWORD (?:'\.\.\.'|:'\w+') IN ROLE (\w+);")
WORKER, RECEIVER = ("inbox_daemon", "inboxd_worker"), ("inbox_receive", "inboxd_receiver")


def test_units_have_narrow_logins_with_settings_and_passwords_of_their_own() -> None:
    """The internet reaches the receiver: it shares no login with workers."""
    worker, instance, receiver = SERVICES
    for name, (login, role) in {worker: WORKER, receiver: RECEIVER}.items():
        text = (DEPLOY / name).read_text()
        assert LOGIN.findall(text) == [(login, role)]
        assert f'"postgresql://{login}@HOST/app"' in text
    header = (DEPLOY / worker).read_text().partition("[Unit]")[0]
    assert "INBOXD_DATABASE__DSN=postgresql://inbox_owner@" in header
    assert "inbox_owner" not in (DEPLOY / receiver).read_text()
    for key in ("ExecStart", "LoadCredential"):
        files = {name: value(name, key).split("/")[-1] for name in SERVICES}
        assert files[receiver] not in {files[worker], files[instance]}


def services_of(compose: str) -> dict[str, str]:
    """Return the text of each service of a Compose file, by name."""
    [services] = re.findall(r"^services:\n((?:  .*\n|\n)+)", compose, re.MULTILINE)
    parts = re.split(r"^  (\w+):.*\n", services, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def login_of(service: str) -> str:
    [dsn] = re.findall(r"INBOXD_DATABASE__DSN: (\S+)", service)
    return str(urlsplit(dsn).username)


def test_each_service_of_compose_has_a_narrow_login_and_only_its_password() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    assert LOGIN.findall(text) == [WORKER, RECEIVER]
    assert "CREATE ROLE inbox_owner LOGIN PASSWORD :'owner';\n" in text
    services = services_of(text)
    whose = {
        "migrate": ("inbox_owner", "owner"),
        "declare": ("inbox_daemon", "worker"),
        "worker": ("inbox_daemon", "worker"),
        "receiver": ("inbox_receive", "receiver"),
    }
    for name, (login, secret) in whose.items():
        assert login_of(services[name]) == login
        sources = re.findall(r"\{ source: (\w+), target: (\w+) \}", services[name])
        assert set(sources) - {("admin", "inboxd_admin_token")} == {
            (secret, "inboxd_database_password")
        }
        assert f"  {secret}: {{ file: ./secrets/{secret} }}\n" in text
    assert set(whose) == {name for name, each in services.items() if "<<: *inboxd" in each}


def test_secrets_of_read_only_containers_are_files() -> None:
    """Compose refuses to start a read-only container with a secret from the environment."""
    text = (DEPLOY / "compose.yaml").read_text()
    assert "read_only: true" in text
    secrets = text.partition("\nsecrets:\n")[2].partition("\n\n")[0].splitlines()
    assert secrets
    assert all("{ file: " in line for line in secrets)
    assert "/deploy/secrets/\n" in (DEPLOY.parent / ".gitignore").read_text()


def test_a_new_plugins_workers_have_a_narrow_login() -> None:
    template = DEPLOY.parent / "inboxd/cli/templates/plugin/compose.yaml.in"
    text = template.read_text()
    assert LOGIN.findall(text) == [WORKER]
    services = services_of(text)
    assert login_of(services["worker"]) == WORKER[0]
    assert "secrets: [{ source: worker, target: inboxd_database_password }]" in services["worker"]
    assert "read_only" not in text, "its secrets are from the environment"


def test_the_image_has_the_versions_that_were_tested() -> None:
    image = (DEPLOY.parent / "Dockerfile").read_text()
    assert "COPY pyproject.toml README.md LICENSE constraints.txt ./" in image
    assert "pip wheel --no-cache-dir --constraint constraints.txt " in image


def manifests() -> dict[tuple[str, str], str]:
    """The manifests of `kubernetes.yaml`, by kind and name."""
    found = {}
    for text in (DEPLOY / "kubernetes.yaml").read_text().split("\n---\n"):
        [kind] = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
        [name] = re.findall(r"^  name: ([\w-]+)$", text, re.MULTILINE)
        found[kind, name] = text
    return found


def settings_of_pods(name: str, folder: Path) -> Settings:
    """The settings of a ConfigMap, with a password file of the test."""
    [lines] = re.findall(r"  config\.toml: \|\n((?:    .*\n?|\n)+)", manifests()["ConfigMap", name])
    password = folder / "password"
    password.write_text("secret")
    file = folder / "config.toml"
    file.write_text(textwrap.dedent(lines).replace("/etc/inboxd/password", str(password)))
    return load(file, {})


def test_the_admin_api_of_pods_is_on_loopback_with_a_token_from_a_secret(tmp_path: Path) -> None:
    admin = settings_of_pods("inboxd", tmp_path).admin
    assert admin.host == "127.0.0.1"
    _is_from_a_secret(admin, "/etc/inboxd/operator.token")
    text = (DEPLOY / "kubernetes.yaml").read_text()
    assert "create secret generic inboxd-admin --from-literal=operator.token=" in text
    worker = manifests()["Deployment", "inboxd"]
    assert f"{{ name: admin, containerPort: {admin.port} }}" in worker
    assert "- secret: { name: inboxd-admin }" in worker
    assert "inboxd-admin" not in manifests()["StatefulSet", "inboxd-receive"]


def test_each_pod_has_a_narrow_role_and_only_its_password(tmp_path: Path) -> None:
    """Only the migration has the owner's role, which may change the schema."""
    roles = dict(LOGIN.findall((DEPLOY / "kubernetes.yaml").read_text()))
    whose = {"inboxd": "inboxd_worker", "inboxd-receive": "inboxd_receiver"}
    for name, role in whose.items():
        dsn = settings_of_pods(name, tmp_path).database.dsn.get_secret_value()
        assert roles[str(urlsplit(dsn).username)] == role
    worker, receiver = (
        manifests()["Deployment", "inboxd"],
        manifests()["StatefulSet", "inboxd-receive"],
    )
    migration, daemon = worker.split("      containers:\n")
    assert "inbox_owner@" in migration
    assert "mountPath: /etc/inboxd-owner" in migration
    assert "inbox_owner" not in daemon
    assert "mountPath: /etc/inboxd-owner" not in daemon + receiver
    assert re.findall(r"secret: \{ name: ([\w-]+) \}", receiver) == ["inboxd-receive"]
    assert "inboxd-receive" not in worker


def test_receivers_in_pods_trust_single_addresses_only(tmp_path: Path) -> None:
    inbound = settings_of_pods("inboxd-receive", tmp_path).inbound
    for believed in inbound.http.trusted_proxies:
        assert ip_network(believed).num_addresses == 1
    told = re.findall(
        r'trusted_proxies = \["([^"]+)"\]', manifests()["ConfigMap", "inboxd-receive"]
    )
    assert all(ip_network(each).num_addresses == 1 for each in told), (
        "comments show no network either"
    )
    spool = str(inbound.spool.path)
    assert f"mountPath: {spool.rpartition('/')[0]}" in manifests()["StatefulSet", "inboxd-receive"]


def test_each_source_is_routed_to_one_receiver(tmp_path: Path) -> None:
    """Two spools of one source keep no order: see `docs/spool.md`."""
    found = manifests()
    assert "  replicas: 2\n" in found["StatefulSet", "inboxd-receive"]
    ingress = found["Ingress", "inboxd-receive"]
    assert 'nginx.ingress.kubernetes.io/upstream-hash-by: "$uri"' in ingress
    assert "service: { name: inboxd-receive, port: { name: inbound } }" in ingress
    answer_within = settings_of_pods("inboxd-receive", tmp_path).inbound.http.answer_within
    [reads] = re.findall(r'proxy-read-timeout: "(\d+)"', ingress)
    assert int(reads) > answer_within.total_seconds()
    [page] = re.findall(
        r"^### Kubernetes\n(.*?)^###", SPOOL_PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert "upstream-hash-by" in page
    assert "loses its order" in page


@pytest.mark.parametrize("name", ["inboxd", "inboxd-receive"])
def test_unnamed_traffic_is_refused(name: str, tmp_path: Path) -> None:
    policy = manifests()["NetworkPolicy", name]
    pods = manifests()["Deployment" if name == "inboxd" else "StatefulSet", name]
    assert f"podSelector: {{ matchLabels: {{ app.kubernetes.io/name: {name} }} }}" in policy
    assert f"labels: {{ app.kubernetes.io/name: {name} }}\n      annotations" in pods
    assert "policyTypes: [Ingress, Egress]" in policy
    ingress, egress = policy.partition("  ingress:\n")[2].split("  egress:\n")
    open_ = {int(port) for port in re.findall(r"port: (\d+)", ingress)}
    ports = {int(port) for port in re.findall(r"containerPort: (\d+)", pods)}
    assert open_ == ports - {settings_of_pods("inboxd", tmp_path).admin.port}
    assert ingress.count("- from: [{ namespaceSelector") == len(open_), (
        "each port has a named sender"
    )
    assert "port: 5432" in egress
    assert ("ipBlock" in egress) == (name == "inboxd"), "receivers make no outgoing calls"
    if name == "inboxd":
        assert "cidr: 0.0.0.0/0, except: [10.0.0.0/8," in egress


def test_the_admin_api_of_compose_has_a_token_from_a_secret() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    given = dict(re.findall(r"(INBOXD_ADMIN__\w+): (.+)", text))
    admin = load(None, {name: value.strip("'\"") for name, value in given.items()}).admin
    _is_from_a_secret(admin, "/run/secrets/inboxd_admin_token")
    assert f'expose: ["{admin.port}"]' in text
    assert "- { source: admin, target: inboxd_admin_token }" in services_of(text)["worker"]
    assert text.count("source: admin") == 1, "no other service has the token"


def _is_from_a_secret(admin: Admin, file: str) -> None:
    assert admin.enabled
    [token] = admin.tokens
    assert (token.token, str(token.token_file)) == (None, file)
