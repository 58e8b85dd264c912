"""The broker is killed at any time under load, and starts again with all that it had acknowledged."""

import asyncio

import pytest
from harness.broker import Broker

from durability import promises
from durability.storm import ROUNDS, Storm

pytestmark = [pytest.mark.martlet("loses what it acknowledged"), pytest.mark.timeout(60 + 10 * ROUNDS)]


class Killed:
    """A machine on which the broker is killed; the kernel keeps what it wrote."""

    def __init__(self, broker: Broker):
        self.broker = broker
        self.port = broker.port

    def start(self):
        self.broker.restart()

    def crash(self):
        self.broker.kill()


@pytest.fixture(params=[1, 2], ids=["one loop", "two loops"])
def storm(request, program, tmp_path):
    (tmp_path / "store").mkdir()
    broker = Broker(
        program, tmp_path,
        configuration=f"persistence true\npersistence_location {tmp_path}/store\nmax_queued_messages 0\nmartlet_threads {request.param}",
        verbose=False,
    )  # fmt: skip
    yield Storm(Killed(broker), loops=request.param)
    try:
        broker.finish()
    finally:
        print(f"--- log of the broker\n{broker.log[-20000:]}")


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_messages_arrive_in_order_and_those_of_qos_2_once(storm, qos):
    asyncio.run(promises.messages(storm, qos))


@pytest.mark.parametrize("qos", [1, 2])
def test_each_message_of_a_share_group_arrives_at_one_member(storm, qos):
    asyncio.run(promises.shared(storm, qos))


def test_retained_messages_are_the_last_acknowledged_ones(storm):
    asyncio.run(promises.retained(storm))


def test_acknowledged_subscriptions_are_there_and_ended_ones_are_not(storm):
    asyncio.run(promises.subscriptions(storm))
