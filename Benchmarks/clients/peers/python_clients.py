"""PyPI's clients: python_clients.py aiomqtt|paho-mqtt JOB PORT COUNT."""
import asyncio
import json
import logging
import os
import sys
import threading
import time

# It warns of each message that is in flight.
logging.disable(logging.WARNING)

PAYLOAD = b"x" * 64
TOPIC = "bench/clients/topic"
WINDOW = 100


class Watch:
    def __init__(self):
        self.wall, self.cpu = time.monotonic(), time.process_time()

    def elapsed(self):
        return time.monotonic() - self.wall

    def tell(self, count):
        print(json.dumps({"count": count, "seconds": self.elapsed(), "cpu_seconds": time.process_time() - self.cpu}), flush=True)


async def with_aiomqtt(job, port, count):
    import aiomqtt

    async with aiomqtt.Client("127.0.0.1", port, identifier=f"aiomqtt-{os.getpid()}", max_inflight_messages=WINDOW,
                              max_concurrent_outgoing_calls=WINDOW, timeout=60) as client:
        if job == "receive":
            await client.subscribe("bench/flood")
            print("ready", flush=True)
            watch, received = None, 0
            async for _ in client.messages:
                watch = watch or Watch()
                received += 1
                if received & 255 == 0 and watch.elapsed() >= count:
                    return watch.tell(received)
        watch = Watch()
        if job == "publish0":
            for _ in range(count):
                await client.publish(TOPIC, PAYLOAD)
            await client.publish(TOPIC, PAYLOAD, qos=1)
        else:
            async def publish(share):
                for _ in range(share):
                    await client.publish(TOPIC, PAYLOAD, qos=1)

            tasks = WINDOW if job == "publish1" else 1
            await asyncio.gather(*(publish(count // tasks) for _ in range(tasks)))
        watch.tell(count)


def with_paho(job, port, count):
    import paho.mqtt.client as mqtt

    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"paho-{os.getpid()}")
    client.max_inflight_messages_set(WINDOW)
    ready = threading.Event()
    client.on_connect = lambda *_: ready.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    ready.wait()
    if job == "receive":
        state = {"watch": None, "count": 0}

        def received(*_):
            state["watch"] = state["watch"] or Watch()
            state["count"] += 1
            if state["count"] & 255 == 0 and state["watch"].elapsed() >= count:
                state["watch"].tell(state["count"])
                os._exit(0)

        client.on_message = received
        client.on_subscribe = lambda *_: print("ready", flush=True)
        client.subscribe("bench/flood")
        threading.Event().wait()
    watch = Watch()
    if job == "publish0":
        for _ in range(count):
            client.publish(TOPIC, PAYLOAD)
        client.publish(TOPIC, PAYLOAD, qos=1).wait_for_publish()
    else:
        window = threading.Semaphore(WINDOW if job == "publish1" else 1)
        client.on_publish = lambda *_: window.release()
        for _ in range(count):
            window.acquire()
            client.publish(TOPIC, PAYLOAD, qos=1)
        for _ in range(WINDOW if job == "publish1" else 1):
            window.acquire()
    watch.tell(count)
    os._exit(0)


library, job, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if library == "aiomqtt":
    asyncio.run(with_aiomqtt(job, port, count))
else:
    with_paho(job, port, count)
