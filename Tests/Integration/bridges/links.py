"""What tests of bridges wait for."""

from harness.waiting import wait_until


def is_connected(broker, name="b", count=1):
    """Waits until the log has said so many times that a bridge is connected."""
    wait_until(lambda: broker.log.count(f"Bridge {name} is connected.") >= count, f"bridge {name} is connected {count} times")
    return broker
