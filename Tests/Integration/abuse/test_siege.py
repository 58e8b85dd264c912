"""Clients that wish the broker ill, each kind with a well-behaved pair beside it: the p99 of the pair stays within 5 ms of what it is
without them, the memory is back where it was when they are gone, and the broker still serves.

The broker's loops and the pair go before all other processes where this user may say so, else the attackers are as nice as can be: what
is measured is what the broker does, not whom the scheduler likes. A measurement that is too slow is repeated twice, each time with a
quiet one before it.
"""

import pytest
from harness.ports import reserve_port

from abuse.crew import Attack
from abuse.siege import SECONDS

pytestmark = [pytest.mark.martlet("makes no such promise"), pytest.mark.timeout(240 + 12 * SECONDS)]

#: As a broker on the open internet would be set up; who does not log in is sent away soon, so that it happens in the test's time.
EXPOSED = "martlet_profile internet\nmartlet_connect_timeout 1\n"
#: As it comes.
PLAIN = "martlet_connect_timeout 1\n"
both = pytest.mark.parametrize("lines", [PLAIN, EXPOSED], ids=["default", "internet"])


@both
def test_malformed_packets_by_the_thousand(besiege, lines):
    siege = besiege(lines)
    siege.withstand(Attack("malformed", (siege.broker.port,), rate=1500, least=1000))


@pytest.mark.parametrize("kind", ["tcp", "tls", "websocket", "proxy"])
def test_slowloris(besiege, authority, kind):
    port, directory = reserve_port(), authority.directory
    lines = {
        "tcp": "",
        "tls": f"certfile {directory}/server.crt\nkeyfile {directory}/server.key",
        "websocket": "protocol websockets",
        "proxy": "enable_proxy_protocol 1",
    }
    siege = besiege(f"{EXPOSED}listener {port} 127.0.0.1\n{lines[kind]}")
    siege.withstand(Attack("slowloris", (port, kind), rate=2000, least=1000))


@pytest.mark.parametrize("payload_bytes", [10, 20_000])
def test_readers_that_stall(besiege, payload_bytes):
    output_max = 1 << 20
    siege = besiege(f"{EXPOSED}martlet_output_bytes_max {output_max}")
    # 30 readers; what they have in their sockets is the kernel's. Beside their output stands what it is made of: idle blocks of it, of more
    # sizes than elsewhere, are kept.
    peak, kept = 2 * 30 * output_max + (8 << 20), 8 * output_max
    attack = Attack("stalled_readers", (siege.broker.port, payload_bytes), rate=1000, least=300)
    siege.withstand(attack, kept_max=kept, peak_max=peak)


@pytest.mark.parametrize("kind", ["equal", "distinct", "overlapping", "groups", "one group"])
def test_bombs_of_subscriptions(besiege, kind):
    siege = besiege(EXPOSED)
    siege.withstand(Attack("subscription_bomb", (siege.broker.port, kind), rate=4, least=4))


@pytest.mark.parametrize("kind", ["equal", "distinct", "overlapping", "groups", "one group"])
def test_bombs_of_subscriptions_without_the_profile(besiege, kind):
    """A client may have thousands of subscriptions then, and ask for all of them at once: that takes one longer turn, but one only."""
    siege = besiege(PLAIN)
    siege.withstand(Attack("subscription_bomb", (siege.broker.port, kind), rate=4, least=4), added_max=50)


@both
def test_storm_of_connections(besiege, lines):
    siege = besiege(lines)
    siege.withstand(Attack("connect_storm", (siege.broker.port,), rate=1000, least=500))


def test_storm_of_wills(besiege):
    siege = besiege(EXPOSED)
    siege.withstand(Attack("will_storm", (siege.broker.port,), rate=500, least=200))


def test_loop_of_takeovers(besiege):
    siege = besiege(EXPOSED)
    siege.withstand(Attack("takeover_loop", (siege.broker.port,), rate=500, least=200))


@pytest.mark.parametrize("claimed, sent", [(268_435_455, 60_000), (262_000, 60_000)])
def test_packets_that_claim_to_be_huge(besiege, claimed, sent):
    siege = besiege(EXPOSED)
    # A hundred connections: what has come, and the room that is held ready for as much again.
    peak = 100 * 2 * sent + (8 << 20)
    siege.withstand(Attack("huge_packets", (siege.broker.port, claimed, sent), rate=500, least=200), peak_max=peak)
