"""The first pages of the documentation: their commands exist, their configurations are right, and what they promise happens."""

import json
import os
import re
import shlex
import subprocess

import pytest
from harness.broker import REPOSITORY
from harness.commands import run
from harness.ports import reserve_port
from harness.waiting import wait_until

pytestmark = pytest.mark.martlet("its own documentation")

CATALOG = REPOSITORY / "Sources/MartletServer/MartletServer.docc"
#: Pages about ways to log in; each has two configurations to copy at least.
LOGINS = ("ChangeFromEMQX", "HomeAssistant", "LoginsByFile", "LoginsByHTTP", "ChangeFromGoAuth", "LoginsByTokens", "LoginsByLDAP", "LoginsByDatabases")
PAGES = {name: (CATALOG / f"{name}.md").read_text() for name in ("AtHome", "Operate", "FirstCluster", "Develop", *LOGINS)}
#: Commands whose first argument is a command too.
PARENTS = ("ctl", "store", "cluster")


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [body for name, body in found if name == language]


def commands() -> list[list[str]]:
    """What the pages tell readers to type that begins with martlet, split into words."""
    typed = []
    for text in PAGES.values():
        lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in [*lines, *re.findall(r"`([^`\n]+)`", prose)]:
            for part in re.split(r"&&|\|(?!\|)", line):
                words = shlex.split(part.replace("&", ""), comments=True)
                words = words[1:] if words[:1] == ["sudo"] else words
                if words[:1] == ["martlet"] and len(words) > 1 and words not in typed:
                    typed.append(words)
    return typed



@pytest.mark.parametrize("name", PAGES)
def test_every_line_can_be_pasted(name):
    for block in blocks(PAGES[name], "sh"):
        assert not re.search(r"<[A-Za-z]|\.\.\.|…|(?<!\S)\$ ", block.replace("<<END", "")), f"a placeholder or a prompt: {block}"
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_each_command_exists_and_has_the_options_that_are_named(program, words):
    path = [word for word in words[1 : 3 if words[1] in PARENTS else 2] if not word.startswith("-")]
    said = run(program.path, *path, "--help")
    help_text = said.output.decode()
    assert said.code == 0 and "USAGE: martlet" in help_text, f"{path}: {said.complaints}"
    for word in words[1:]:
        if re.match(r"--?[A-Za-z]", word):
            assert re.search(rf"(?<![\w-]){re.escape(word.split('=')[0])}(?![\w-])", help_text), f"martlet {path} has no {word}"


def test_each_option_of_the_table_for_emqx_exists(program):
    names = {json.loads(line)["name"] for line in run(program.path, "options", "--json").output.decode().splitlines()}
    section = PAGES["ChangeFromEMQX"].split("### How is it configured?")[1].split("###")[0]
    rows = [row.split("|")[2] for row in section.splitlines() if row.startswith("| `")]
    options = [span.split()[0] for row in rows for span in re.findall(r"`([^`]+)`", row)]
    assert len(options) > 15
    for name in options:
        assert name in names or (name.endswith("…") and any(known.startswith(name[:-1]) for known in names)), name


def test_the_users_and_rules_of_a_home_do_what_the_page_says(program, start_broker, tmp_path):
    page = PAGES["AtHome"]
    (network,) = [block.split("<<END\n")[1].split("END")[0] for block in blocks(page, "sh") if "<<END" in block]
    (rules,) = blocks(page, "")
    users = tmp_path / "users"
    for index, user in enumerate(("homeassistant", "zigbee2mqtt", "nodered")):
        assert run(program.path, "passwd", *(["-c"] if index == 0 else []), "-b", users, user, "secret").code == 0
    (tmp_path / "rules").write_text(rules)
    configuration = network.replace("/etc/martlet/users", str(users)).replace("listener 1883", "listener {port} 127.0.0.1")
    for path in (users, tmp_path / "rules"):
        os.chmod(path, 0o600)
    port = start_broker(configuration=f"{configuration}acl_file {tmp_path}/rules\n", listener=False).port

    def publish(user: str, topic: str) -> int:
        login = ["-u", user, "-P", "secret"] if user else []
        return run(program.path, "pub", "-p", port, *login, "-V", "5", "-q", "1", "-r", "-t", topic, "-m", "on").code

    wait_until(lambda: publish("zigbee2mqtt", "zigbee2mqtt/lamp") in (0, 16), "zigbee2mqtt writes below its own name")
    assert publish("nodered", "zigbee2mqtt/lamp") == 135 and publish("", "zigbee2mqtt/lamp") == 135
    seen = run(program.path, "sub", "-p", port, "-u", "homeassistant", "-P", "secret", "-t", "zigbee2mqtt/#", "-v", "-C", "1", "-W", "30")
    assert seen.output == b"zigbee2mqtt/lamp on\n"


def test_the_port_for_monitoring_serves_metrics_and_health_alone(program, start_broker, tmp_path):
    (monitoring,) = [block for block in blocks(PAGES["Operate"], "") if block.startswith("listener")]
    port = reserve_port()
    start_broker(configuration=monitoring.replace("listener 9884", f"listener {port} 127.0.0.1"))

    def status(path: str) -> str:
        return run("curl", "--silent", "--output", tmp_path / "answer", "--write-out", "%{http_code}", f"http://127.0.0.1:{port}{path}").output.decode()

    assert status("/metrics") == "200" and "martlet_connections" in (tmp_path / "answer").read_text()
    assert status("/readyz") == "200" and status("/dashboard/") == "404" and status("/api/martlet/v1/broker") == "404"


def test_passwords_in_a_file_are_hashed_in_place(program, tmp_path):
    (block,) = [block for block in blocks(PAGES["ChangeFromEMQX"], "sh") if "passwd -U" in block]
    (tmp_path / "martlet").symlink_to(program.path)
    subprocess.run(["bash", "-e", "-c", block], cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    lines = (tmp_path / "users").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["anna", "sensor"] and all(":$" in line for line in lines)


def test_a_bridge_brings_retained_messages_over(program, start_broker):
    old = start_broker()
    assert run(program.path, "pub", "-p", old.port, "-r", "-q", "1", "-t", "plant/1", "-m", "on").code == 0
    (bridge,) = [block for block in blocks(PAGES["ChangeFromEMQX"], "") if block.startswith("connection")]
    new = start_broker(configuration=bridge.replace("emqx.example:1883", f"127.0.0.1:{old.port}"))
    seen = run(program.path, "sub", "-p", new.port, "-t", "plant/#", "-v", "-C", "1", "-W", "30")
    assert seen.output == b"plant/1 on\n"
    # What comes later is not retained for who is there: somebody who comes then is who sees the flag.
    wait_until(
        lambda: run(program.path, "sub", "-p", new.port, "-t", "plant/#", "-F", "%r %p", "-C", "1", "-W", "30").output == b"1 on\n",
        "it is retained here too",
    )
    # Both ways, until everybody has moved.
    assert run(program.path, "pub", "-p", new.port, "-r", "-q", "1", "-t", "plant/2", "-m", "off").code == 0
    seen = run(program.path, "sub", "-p", old.port, "-t", "plant/2", "-C", "1", "-W", "30")
    assert seen.output == b"off\n"


def configurations(page: str) -> list[str]:
    return [block for block in blocks(PAGES[page], "") if block.startswith("listener")]


@pytest.mark.parametrize(("page", "index"), [(page, index) for page in LOGINS for index in range(max(2, len(configurations(page))))])
def test_the_configurations_of_the_pages_about_logins_are_right(program, tmp_path, page, index):
    text = configurations(page)[index]
    for path in set(re.findall(r"/etc/\S+", text)):
        file = tmp_path / path.rsplit("/", 1)[1]
        if file.suffix == ".crt":
            text = "".join(line for line in text.splitlines(keepends=True) if path not in line)
        file.write_text("0123456789abcdef" * 4 if "secret" in file.name else '{"clients": [], "groups": [], "roles": []}' if file.suffix == ".json" else "")
        file.chmod(0o600)
        text = text.replace(path, str(file))
    configuration = tmp_path / "martlet.conf"
    configuration.write_text(text.replace("listener 1883", f"listener {reserve_port()} 127.0.0.1"))
    checked = run(program.path, "--test-config", "-c", configuration)
    assert checked.code == 0 and "rror" not in checked.complaints, checked
