"""TLS of connections to brokers: the context for settings, and files that cannot be used."""

import ssl
from pathlib import Path

import pytest

from inboxd.brokers import tls
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.support.certificates import write_certificate


def test_settings_without_tls_have_no_context(tmp_path: Path) -> None:
    assert tls.context("main", Broker(tls=False, tls_ca=tmp_path / "nowhere")) is None


def test_servers_are_verified_by_the_authorities_of_the_settings(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "localhost")
    made = tls.context("main", Broker(tls=True, tls_ca=files["certificate"]))
    assert made is not None
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    assert made.cert_store_stats()["x509"] == 1  # without those of the system


def test_a_certificate_of_our_own_is_read(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "localhost")
    made = tls.context(
        "main", Broker(tls=True, tls_cert=files["certificate"], tls_key=files["private_key"])
    )
    assert made is not None


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnavailable) as told:
        tls.context("main", Broker(tls=True, tls_ca=tmp_path / "ca.pem"))
    assert str(told.value) == (
        f"broker 'main': tls_ca={tmp_path}/ca.pem cannot be used: No such file or directory. "
        "Correct it in [brokers.main]."
    )


def test_files_with_other_contents_are_one_clear_line(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "localhost")
    other = tmp_path / "other"
    other.write_text("no PEM")
    with pytest.raises(BrokerUnavailable, match=r"tls_ca=.*other cannot be used"):
        tls.context("main", Broker(tls=True, tls_ca=other))
    with pytest.raises(BrokerUnavailable, match=r"tls_cert=.*other with tls_key=.* cannot be used"):
        tls.context("main", Broker(tls=True, tls_cert=other, tls_key=files["private_key"]))


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "localhost", passphrase=b"secret")
    with pytest.raises(BrokerUnavailable, match="have no passphrase"):
        tls.context(
            "main", Broker(tls=True, tls_cert=files["certificate"], tls_key=files["private_key"])
        )
