"""One of each thing that outlives the broker: left with it, and found again."""

from harness.broker import Broker
from harness.wire import PUBACK, PUBLISH, Wire

VERSION = "mqttv311"


def leave_something(broker: Broker, count: int = 20):
    """A session with a subscription and a queue, and a retained message; all acknowledged."""
    keeper, publisher = Wire(broker.port, VERSION), Wire(broker.port, VERSION)
    keeper.connect("keeper", clean=False)
    keeper.subscribe("kept/#", 1)
    keeper.close()
    publisher.connect("publisher")
    for number in range(1, count + 1):
        publisher.publish("kept/queued", str(number), qos=1, identifier=number)
        publisher.receive(PUBACK)
    publisher.publish("retained", "value", qos=1, retain=True)
    publisher.receive(PUBACK)
    publisher.close()


def check_it_is_there(broker: Broker, count: int = 20):
    keeper = Wire(broker.port, VERSION)
    assert keeper.connect("keeper", clean=False)[0], "the session is lost"
    for number in range(1, count + 1):
        packet = keeper.receive(PUBLISH)
        assert (packet.topic, packet.body[-len(str(number)) :]) == ("kept/queued", str(number).encode())
        keeper.acknowledge(PUBACK, packet.identifier)
    keeper.publish("kept/now", "now")
    assert keeper.receive(PUBLISH).topic == "kept/now"
    keeper.subscribe("retained", 0)
    assert keeper.receive(PUBLISH).body.endswith(b"value")
    keeper.close()
