"""A retained message is withheld after a crash too, when its publisher may not write there any more."""

import pytest
from harness.wire import PUBACK, PUBLISH, Wire

pytestmark = pytest.mark.martlet("saves at intervals")


@pytest.mark.parametrize("checks, kept", [("true", ["a/2", "b/1"]), ("false", ["a/1", "a/2", "b/1"])])
@pytest.mark.parametrize("loops", [1, 2])
def test_the_origin_of_a_retained_message_outlives_the_broker(start_broker, tmp_path, checks, kept, loops):
    def rules(user: str, other: str) -> str:
        return f"pattern read #\nuser one\ntopic write {user}\nuser two\ntopic write {other}\n"

    (tmp_path / "rules").write_text(rules("#", "#"))
    broker = start_broker(
        configuration="persistence true\npersistence_location {directory}\nacl_file {directory}/rules\n"
        f"check_retain_source {checks}\nmartlet_threads {loops}"
    )
    for user, topics in (("one", ["a/1", "a/2", "b/1"]), ("two", ["a/2"])):
        publisher = Wire(broker.port)
        publisher.connect(f"publisher of {user}", user=user, password="x")
        for topic in topics:
            publisher.publish(topic, user, qos=1, retain=True)
            publisher.receive(PUBACK)
        publisher.close()
    broker.kill()
    (tmp_path / "rules").write_text(rules("b/#", "a/#"))
    broker.restart()
    later = Wire(broker.port)
    later.connect("later")
    later.subscribe("#")
    assert sorted(later.receive(PUBLISH).topic for _ in kept) == kept
    later.ping()
    later.close()
