"""A client that publishes all the time, numbers, and looks at those of the others."""

import threading
import time

from harness.wire import DISCONNECT, PUBACK, PUBLISH, Wire
from harness.waiting import PATIENCE


class Load:
    """One client of a node, on a thread of its own: publishes its numbers at QoS 1, one after the other, and subscribes to all loads.

    It connects anew whenever it is not let in or is cut off. `wrong` says what may never happen, whatever fails: a number that comes
    twice, or behind a later one of the same publisher; and a node that lets a client wait.
    """

    def __init__(self, host, port: int, name: str):
        self.wrong: list[str] = []
        self.acknowledged = 0
        self.came = 0
        self._host, self._port, self._name = host, port, name
        self._last: dict[str, int] = {}
        self._number = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self):
        self._ends.set()
        self._thread.join(3 * PATIENCE)
        if self._thread.is_alive():
            self.wrong.append(f"{self._name}: the load does not end")

    def _run(self):
        with self._host.inside():
            while not self._ends.is_set():
                try:
                    wire = Wire(self._port, "mqttv311")
                except OSError:
                    self._ends.wait(0.05)
                    continue
                try:
                    if wire.connect()[1] == 0:
                        self._publish(wire)
                    else:
                        self._ends.wait(0.05)
                except TimeoutError:
                    self.wrong.append(f"{self._name}: the node lets its client wait")
                except (AssertionError, OSError):
                    pass  # cut off
                finally:
                    wire.close()

    def _publish(self, wire: Wire):
        # Until the SUBACK: nobody can say which of these came before it.
        wire.send_subscribe("load/#")
        while not self._ends.is_set():
            self._number += 1
            wire.publish(f"load/{self._name}", str(self._number), qos=1, identifier=self._number % 60_000 + 1)
            while True:
                packet = wire.receive()
                if packet is None or packet.kind == DISCONNECT:
                    return
                if packet.kind == PUBACK:
                    break
                if packet.kind == PUBLISH:
                    self._look_at(packet)
            self.acknowledged += 1
            time.sleep(0.002)

    def _look_at(self, packet):
        number = int(packet.body[2 + len(packet.topic) :])
        last = self._last.get(packet.topic, 0)
        if number <= last:
            self.wrong.append(f"{self._name}: {packet.topic} brought {number} behind {last}")
        self._last[packet.topic] = number
        self.came += 1
