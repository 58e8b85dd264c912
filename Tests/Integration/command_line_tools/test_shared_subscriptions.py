"""$share groups: each message to one member."""

from collections import Counter

import pytest

PAYLOADS = [str(number) for number in range(60)]


def publish_all(tools, topic, qos=1):
    lines = "".join(f"{payload}\n" for payload in PAYLOADS)
    tools.publish(topic, qos=qos, arguments=["-l"], standard_input=lines.encode())


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_and_all_have_work(loops_broker, tools, version, qos):
    members = [tools.subscribe("$share/group/work/#", qos=qos, version=version) for _ in range(3)]
    publish_all(tools, "work/item", qos)
    shares = [[message.payload.decode() for message in member.take_rest()] for member in members]
    assert Counter(payload for share in shares for payload in share) == Counter(PAYLOADS)
    assert all(len(share) >= 10 for share in shares), [len(share) for share in shares]


def test_two_groups_and_a_plain_subscriber_each_have_all(loops_broker, tools):
    groups = [[tools.subscribe(f"$share/{name}/work", qos=1) for _ in range(2)] for name in ["one", "two"]]
    plain = tools.subscribe("work", qos=1)
    publish_all(tools, "work")
    for group in groups:
        assert sorted(m.payload.decode() for member in group for m in member.take_rest()) == sorted(PAYLOADS)
    assert [message.payload.decode() for message in plain.take_rest()] == PAYLOADS


def test_the_work_of_a_member_that_left_goes_to_the_others(loops_broker, tools):
    stays, leaves = (tools.subscribe("$share/group/work", qos=1) for _ in range(2))
    leaves.terminate()
    publish_all(tools, "work")
    assert [message.payload.decode() for message in stays.take_rest()] == PAYLOADS


@pytest.mark.martlet("mosquitto 2.0 sends it")
def test_a_shared_subscription_receives_no_retained_message(broker, tools):
    tools.publish("work", "kept", qos=1, retain=True)
    assert tools.subscribe("$share/group/work", qos=1).take_rest() == []
