"""A node is killed and comes back with its disk, at once or when another one has dealt what it was not done with; or it hangs for longer than its
lease, and goes on: each message comes to a share group, and of QoS 2 once.

MARTLET_CLUSTER_ROUNDS says how often.
"""

import collections
import itertools
import os
import random
import signal
import threading
import time

import pytest
from cluster.clients import Publisher, Receiver, connect
from harness.waiting import wait_until

ROUNDS = int(os.environ.get("MARTLET_CLUSTER_ROUNDS", "1"))
# Longer than a lease lasts, and the time until all have seen that it has ended.
LONG = 18

pytestmark = [pytest.mark.martlet("mosquitto has no cluster"), pytest.mark.timeout(120 + 90 * ROUNDS)]


class Member(Receiver):
    """A member of the group, on one node, to which it comes back whenever that is there."""

    def __init__(self, node, name: str):
        super().__init__(name)
        self.node, self.is_ending, self.left = node, False, 0
        self.troubles: list[str] = []
        self.wire, present = connect(node, name)
        assert not present
        self.wire.subscribe("$share/group/work", 2)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        chance = random.Random(self.name)
        while not self.is_ending:
            try:
                packet = self.wire.receive(seconds=0.5)
                if packet is not None:
                    # Some of it is unanswered when the node is killed; no more of it than leaves the broker room for others.
                    leaves = chance.random() < 0.01 and self.left < 10
                    self.left += leaves
                    self.take(packet, leaves=leaves)
                    continue
            except TimeoutError:
                continue
            except OSError:
                pass
            except AssertionError as trouble:
                if "came" in str(trouble):
                    self.troubles.append(str(trouble))
                    return
            self.again()

    def again(self):
        """Connects once more: what was left unanswered comes again."""
        while not self.is_ending:
            try:
                self.wire.close()
                self.wire, _ = connect(self.node, self.name)
                self.left = 0
                return
            except (AssertionError, OSError):
                continue

    def end(self):
        self.is_ending = True
        self.thread.join(70)


def is_dealt_once(site, everybody: bool, disturb):
    """everybody: both members are on the node that is disturbed."""
    members: list[Member] = []
    try:
        victim = site.nodes[2]
        members = [Member(victim, "first"), Member(victim if everybody else site.nodes[1], "second")]
        publisher = Publisher(site.nodes[0], "work", pace=0.03)
        for _ in range(ROUNDS):
            time.sleep(3)
            disturb(site)
            site.is_whole()
            time.sleep(2)
        publisher.end()
        assert publisher.trouble is None
        wanted = set(publisher.acknowledged)
        assert len(wanted) > 50

        def seen() -> list[str]:
            return [text for member in members for text in member.seen]

        # What a member has left unanswered holds nothing up; what waits behind a lease that lasts comes when that has ended.
        wait_until(lambda: wanted <= set(seen()) or any(member.troubles for member in members), "all has come", 40)
        time.sleep(2)
        for member in members:
            assert not member.troubles
        counts = collections.Counter(seen())
        assert {text for text in wanted if int(text) % 2 and counts[text] != 1} == set()
    finally:
        for member in members:
            member.end()


# The others by night.
CASES = [(LONG, True)] if ROUNDS == 1 else list(itertools.product((0, LONG), (False, True)))


@pytest.mark.parametrize(("away", "everybody"), CASES)
def test_each_message_comes_to_the_group_though_a_node_is_killed_and_comes_back(own, away, everybody):
    """After so many seconds."""

    def kill(site):
        site.nodes[2].broker.kill()
        time.sleep(away)
        site.nodes[2].broker.restart()

    is_dealt_once(own, everybody, kill)


HANGS = [("node", False)] if ROUNDS == 1 else list(itertools.product(("node", "server"), (False, True)))


@pytest.mark.parametrize(("what", "everybody"), HANGS)
def test_each_message_comes_to_the_group_though_a_node_or_its_server_hangs_longer_than_its_lease(own, what, everybody):
    """What a server had not read when it began to hang, it reads when nobody waits for it any more."""

    def hang(site):
        process = site.nodes[2].broker.process if what == "node" else site.servers[2].process
        process.send_signal(signal.SIGSTOP)
        time.sleep(LONG)
        process.send_signal(signal.SIGCONT)

    is_dealt_once(own, everybody, hang)
