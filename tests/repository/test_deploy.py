"""What `deploy/` has: systemd takes its units, and they do not drift apart."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from inboxd.daemon.sockets import BACKLOG, INBOUND
from inboxd.settings import Admin, load
from tests.support.waiting import patient

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = ("inboxd.service", "inboxd@.service", "inboxd-receive.service")


def lines_of(name: str) -> list[str]:
    """Of a unit, without comments."""
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
        # The program is looked for where the units have it.
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
def test_all_are_locked_down_alike(service: str) -> None:
    def rules(name: str) -> list[str]:
        lines = lines_of(name)
        return lines[lines.index("DynamicUser=yes") : lines.index("[Install]")]

    assert rules(service) == rules(SERVICES[0])


def test_the_socket_has_the_name_by_which_the_program_knows_it() -> None:
    assert value("inboxd-receive.socket", "FileDescriptorName") == INBOUND
    assert value("inboxd-receive.socket", "Backlog") == str(BACKLOG)


@pytest.mark.parametrize("service", SERVICES)
def test_only_the_main_process_is_told_to_stop_and_to_reload(service: str) -> None:
    assert value(service, "KillMode") == "mixed"
    assert value(service, "ExecReload") == "/bin/kill -HUP $MAINPID"
    assert value(service, "RestartPreventExitStatus") == "78"
    assert re.match(r"/opt/inboxd/bin/inboxd (run|receive) ", value(service, "ExecStart"))


def test_no_units_port_is_the_default_of_another_listener() -> None:
    """With [admin] in the file that both units share, the receiver would end with 78."""
    given = re.findall(r"INBOXD_HTTP__PORT=(\d+)", (DEPLOY / SERVICES[-1]).read_text())
    assert given
    others = load(None, {})
    taken = {others.http.port, others.inbound.http.port, others.admin.port}
    assert not taken & set(map(int, given))


@pytest.mark.parametrize("service", SERVICES)
def test_no_core_file_is_left_of_secrets(service: str) -> None:
    assert value(service, "LimitCORE") == "0"


def test_the_image_has_the_versions_that_were_tested() -> None:
    image = (DEPLOY.parent / "Dockerfile").read_text()
    assert "COPY pyproject.toml README.md LICENSE constraints.txt ./" in image
    assert "pip wheel --no-cache-dir --constraint constraints.txt " in image


def test_the_admin_api_of_pods_is_on_loopback_with_a_token_from_a_secret(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes.yaml").read_text()
    [lines] = re.findall(r"  config\.toml: \|\n((?:    .*\n|\n)+)", text)
    file = tmp_path / "config.toml"
    password = tmp_path / "password"
    password.write_text("secret")
    file.write_text(textwrap.dedent(lines).replace("/etc/inboxd/password", str(password)))
    admin = load(file, {}).admin
    assert admin.host == "127.0.0.1"
    _is_from_a_secret(admin, "/etc/inboxd/operator.token")
    assert "create secret generic inboxd-admin --from-literal=operator.token=" in text
    worker = text[text.index("kind: Deployment") : text.index("kind: PodDisruptionBudget")]
    assert f"{{ name: admin, containerPort: {admin.port} }}" in worker
    assert "- secret: { name: inboxd-admin }" in worker


def test_the_admin_api_of_compose_has_a_token_from_a_secret() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    given = dict(re.findall(r"(INBOXD_ADMIN__\w+): (.+)", text))
    admin = load(None, {name: value.strip("'\"") for name, value in given.items()}).admin
    _is_from_a_secret(admin, "/run/secrets/inboxd_admin_token")
    assert f'expose: ["{admin.port}"]' in text
    assert "secrets: [inboxd_database_password, inboxd_admin_token]" in text
    assert "\n  inboxd_admin_token:\n    environment: ADMIN_TOKEN\n" in text


def _is_from_a_secret(admin: Admin, file: str) -> None:
    assert admin.enabled
    [token] = admin.tokens
    assert (token.token, str(token.token_file)) == (None, file)
