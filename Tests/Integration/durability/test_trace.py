"""The system calls of the broker show it: no acknowledgement leaves before a sync of the log has returned that began after the packet
was read and its message was written; and no descriptor is used that is not open."""

import re
import signal
import subprocess
from collections import defaultdict

import pytest
from harness.broker import Broker
from harness.waiting import wait_until
from harness.wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, Wire, frame, text

from durability.belongings import check_it_is_there, leave_something
from durability.trace import DESCRIPTORS, OPTIONS, Call, packets, read_trace

pytestmark = pytest.mark.martlet("acknowledges before it syncs")

BURST = 60


class TracedBroker(Broker):
    """Runs under strace, which stays out of the way: the process is the broker's own."""

    options = OPTIONS

    def command(self):
        return ["strace", "-D", *self.options, "-o", str(self.trace), *super().command()]

    @property
    def trace(self):
        return self.directory / f"trace-{self.port}"

    def stop_and_read(self) -> str:
        """The whole trace, once the broker has been asked to end and has done so."""
        number = self.process.pid
        assert self.stop() == 0
        return self.whole_trace(number, 0)

    def whole_trace(self, number: int, code: int) -> str:
        """strace ends after the process that it traces."""
        end = re.compile(rf"^{number} +\+\+\+ exited with {code}", re.MULTILINE)
        wait_until(lambda: end.search(self.trace.read_text()), "the trace is whole")
        return self.trace.read_text()


class BrokerWithTracedDescriptors(TracedBroker):
    options = DESCRIPTORS


@pytest.fixture(params=[1, 2], ids=["one loop", "two loops"])
def make_broker(request, program, tmp_path):
    """Makes a broker of a class, all of them on one store."""
    probe = subprocess.run(["strace", "-D", "-o", "/dev/null", "true"], capture_output=True, text=True)
    if probe.returncode and "not permitted" in probe.stderr:
        pytest.skip(f"this machine lets nobody trace: {probe.stderr.strip()}")
    assert probe.returncode == 0, probe.stderr
    configuration = f"persistence true\npersistence_location {tmp_path}\nmartlet_threads {request.param}"
    made = []

    def make(kind: type[TracedBroker], *, verbose: bool = False) -> TracedBroker:
        made.append(kind(program, tmp_path, verbose=verbose, configuration=configuration))
        return made[-1]

    yield make
    for broker in made:
        broker.finish()


def test_every_acknowledgement_follows_a_sync(make_broker):
    broker = make_broker(TracedBroker).start()
    converse(broker.port)
    broker.stop_and_read()
    calls = read_trace(broker.trace)
    log = [call for call in calls if call.file.endswith("/martlet.db-wal") and call.result >= 0]
    syncs = [call for call in log if call.name in ("fsync", "fdatasync")]
    writes = [call for call in log if call.name == "pwrite64"]
    answered = 0
    for request, read, answer, sent in conversations(calls):
        covering = [sync for sync in syncs if read.ended < sync.began and sync.ended < sent.began]
        assert covering, f"packet type {answer.kind} for {answer.identifier} left without a sync, in line {sent.began + 1} of the trace"
        if request.kind == PUBLISH:
            payload = request.body[-12:]
            assert any(read.ended < write.began and write.ended < covering[-1].began and payload in write.data for write in writes)
        answered += 1
    # SUBSCRIBE; PUBLISH one by one, in bursts of two, with QoS 2, which has two answers; UNSUBSCRIBE.
    assert answered == 1 + 10 + 2 * BURST + 2 * 10 + 1


def test_no_descriptor_is_used_that_is_not_open(make_broker):
    broker = make_broker(BrokerWithTracedDescriptors, verbose=True).start()
    leave_something(broker)
    second = make_broker(BrokerWithTracedDescriptors)
    number, complaint = run_to_its_end(second)
    assert f"{second.directory}/martlet.db-mark is in use by another process" in complaint
    broker.signal(signal.SIGHUP)
    broker.wait_for_log("Reloading config")
    check_it_is_there(broker)
    for trace in (broker.stop_and_read(), second.whole_trace(number, 1)):
        closings = re.findall(r"close\(.*", trace)
        assert any(closing.endswith("= 0") for closing in closings), "nothing was traced"
        assert [line for line in trace.splitlines() if " EBADF " in line] == []


def run_to_its_end(broker: TracedBroker) -> tuple[int, str]:
    """Runs a broker that ends by itself with exit code 1; its process identifier, and what it says."""
    process = subprocess.Popen(broker.command(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    complaint = process.communicate(timeout=10)[1]
    assert process.returncode == 1
    return process.pid, complaint


def converse(port: int):
    """Every kind of packet that is acknowledged, one by one and in bursts; each payload has 12 bytes of its own."""
    version = "mqttv311"
    keeper, first, second = (Wire(port, version) for _ in range(3))
    keeper.connect("keeper", clean=False)
    keeper.subscribe("kept/#", 2)
    keeper.close()
    first.connect("first", clean=False)
    for number in range(1, 11):
        first.publish("kept/lone", f"lone {number:7}", qos=1, identifier=number)
        assert first.receive(PUBACK).identifier == number
    second.connect("second", clean=False)
    for name, wire in (("ones", first), ("twos", second)):
        for number in range(1, BURST + 1):
            wire.publish(f"kept/{name}", f"{name} {number:7}", qos=1, identifier=number)
    for wire in (first, second):
        for number in range(1, BURST + 1):
            assert wire.receive(PUBACK).identifier == number
    for number in range(101, 111):
        first.publish("kept/twice", f"2nd {number:8}", qos=2, identifier=number)
        assert first.receive(PUBREC).identifier == number
        first.acknowledge(PUBREL, number)
        assert first.receive(PUBCOMP).identifier == number
    first.close()
    second.close()
    keeper = Wire(port, version)
    assert keeper.connect("keeper", clean=False)[0]
    keeper.send(frame(UNSUBSCRIBE, 2, b"\0\7" + text("kept/#")))
    while keeper.receive().kind != UNSUBACK:
        pass
    keeper.close()


ANSWERS = {PUBACK: PUBLISH, PUBREC: PUBLISH, PUBCOMP: PUBREL, SUBACK: SUBSCRIBE, UNSUBACK: UNSUBSCRIBE}


def conversations(calls: list[Call]):
    """Each acknowledgement that the broker sent: the packet, the call that read it, the acknowledgement, the call that sent it."""
    sockets = defaultdict(lambda: ([], []))
    for call in calls:
        if call.file.startswith("socket:") and call.result > 0:
            sockets[call.file][call.name.startswith("send") or call.name == "writev"].append(call)
    for received, sent in sockets.values():
        requests = defaultdict(list)
        for packet, call in packets(received):
            if packet.kind in ANSWERS.values():
                requests[packet.kind, packet.identifier].append((packet, call))
        for packet, call in packets(sent):
            if packet.kind in ANSWERS:
                yield *requests[ANSWERS[packet.kind], packet.identifier].pop(0), packet, call
