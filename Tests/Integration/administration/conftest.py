"""Fixtures of HTTP: brokers with a listener for it, and a browser."""

import hashlib
import subprocess
from collections.abc import Callable

import pytest
from harness import dashboard as chromium
from harness.ports import reserve_port
from harness.site import Site


@pytest.fixture
def site(start_broker) -> Callable[..., Site]:
    """Starts a broker with a listener for HTTP, whose section goes on with the lines that are given."""

    def start(lines: str = "", configuration: str = "", listener: bool = True, **options) -> Site:
        port = reserve_port()
        mqtt = "" if listener else "listener {port} 127.0.0.1\n"
        http = f"listener {port} 127.0.0.1\nprotocol http_api\n{lines}"
        broker = start_broker(configuration=f"{configuration}\n{mqtt}{http}", listener=listener)
        return Site(broker, port, **options)

    return start


@pytest.fixture(scope="module")
def browser():
    if not chromium.IS_HERE:
        pytest.skip("there is no chromium here, or no chromedriver")
    driver = chromium.start_browser()
    yield driver
    driver.quit()


@pytest.fixture
def dashboard(browser, start_broker, tmp_path) -> chromium.Dashboard:
    tokens = tmp_path / "tokens"
    digest = {name: hashlib.sha256(f"mrt_{name}".encode()).hexdigest() for name in ["admin", "viewer"]}
    tokens.write_text("".join(f"{name}:{name}:{value}\n" for name, value in digest.items()))
    port = reserve_port()
    broker = start_broker(configuration=f"plugin_load users mosquitto_dynamic_security.so\nplugin_opt_config_file {tmp_path}/users.json\n"
                          f"listener {port} 127.0.0.1\nprotocol http_api\nmartlet_http_token_file {tokens}\nplugin_use users\n"
                          "connection site\naddress 127.0.0.1:9\ntopic plant/# out 1\n")
    return chromium.Dashboard(broker, port, browser)


@pytest.fixture
def files_dashboard(browser, start_broker, program, tmp_path) -> chromium.Dashboard:
    """A broker with users and rules in files."""
    (tmp_path / "tokens").write_text(f"admin:admin:{hashlib.sha256(b'mrt_admin').hexdigest()}\n")
    subprocess.run([program.path, "passwd", "-c", "-b", str(tmp_path / "passwd"), "anna", "secret"], check=True)
    (tmp_path / "passwd").write_text("# users\n" + (tmp_path / "passwd").read_text())
    (tmp_path / "acl").write_text("# rules\nuser anna\ntopic readwrite home/#\n")
    port = reserve_port()
    broker = start_broker(configuration=f"password_file {tmp_path}/passwd\nacl_file {tmp_path}/acl\nallow_anonymous true\n"
                          f"listener {port} 127.0.0.1\nprotocol http_api\nmartlet_http_token_file {tmp_path}/tokens\n")
    return chromium.Dashboard(broker, port, browser)
