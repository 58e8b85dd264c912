"""What martlet sub prints, beside what mosquitto_sub prints of the same messages."""

import re
import subprocess
import threading

import pytest
from harness.waiting import PATIENCE
from harness.commands import NOBODY, READY, make_ready, run

#: Payloads, topics and properties that formats have trouble with.
MESSAGES = [
    (b"hello world", "t/plain", 0, []),
    (b"", "t/empty", 0, []),
    (b"", "t/empty1", 1, []),
    ('tab\there "q" \\ / \x01 \x7f é 漢 😀'.encode(), 't/é"x', 1, []),
    (b"a\x00b\xff\xfe", "t/bytes", 2, []),
    (b"0123456789abcdef", "t/a/long/topic/of/many/levels", 0, []),
    (b"21.5", "t/p", 2, ["content-type", "text/plain"]),
    (b"x", "t/q", 0, ["user-property", "a", "b", "user-property", "a", "c \"d\""]),
    (b"{}", "t/r", 1, ["response-topic", "r/t"]),
    (b"[]", "t/s", 0, ["correlation-data", 'co"rr']),
    (b"1", "t/u", 0, ["payload-format-indicator", "1"]),
    (b"2", "t/v", 0, ["message-expiry-interval", "100"]),
]  # fmt: skip

JSON = [
    '{"b":1.0,"a":[1,2.5e3,-0,1e400,0.1,123456789012345678,1E2,"\\u00e9\\n\\/"],"n":null,"t":true, "o":{ } ,"e":[]}',
    "27.0", "not json", ' "x" ', '[1, 2,{"a":"\\ud83d\\ude00"}]', "1e5", "0.30000000000000004", "100000000000000000000", '{"a":1,"a":2}',
    '"\\u0000x"', '"a\\u0041\\u001f\\b\\f"', "01", "1.", "-", "[1,]", '{"a":1,}', '"\\x"', "\ufeff1", '"\\ud800"', '"a\tb"', "1 2", "nul", "1e", "1-2",
    "0x10", "1e-7", "5e-324", "0.1e1", "-0.0", "12345678.9", "4294967296", "1.7976931348623157e308", "[[[]]]", "{", "}", '"', '{"a" : {"b" : [ ] } }', "tru",
    "[true,false,null]", "3.141592653589793", "2.2250738585072014e-308", "1 ", "\n\t1", '{"":""}', '{1:2}', '[1 2]', "+1", ".5", "-.5", "1.5E+3", "9007199254740993",
]  # fmt: skip

FORMATS = [
    "%t %p %q %r %m %l", "%x %X", "[%20t]", "[%-20t]", "[%.4t]", "[%-8.4t]", "[%8.4t]", "[%10.30t]", "[%5m]", "[%05m]", "[%-5m]", "[%-05m]",
    "[%8p]", "[%08p]", "[%-8p]", "[%3p]", "[%03l]", "[%12x]", "[%012X]", "[%-12x]", "[%5x]", "[%C|%5C|%-5C|%.2C|%12C]", "[%R|%6R|%-6R|%.1R]", "[%D]", "[%E|%5E|%05E]",
    "[%F|%3F|%03F|%-3F]", "[%A|%3A|%03A]", "[%S|%3S]", "%P", "%%", "\\\\ \\n \\r \\t \\e \\a \\v \\0", "@@", "", "é%té", "%6.3t%-6q%3r",
]  # fmt: skip


#: What ends a message in what is printed.
END = "\\0\\n"


class Printed:
    """A subscriber and the bytes that it has printed."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=NOBODY
        )
        self.output = b""
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.errors = b""

    def _read(self):
        while chunk := self.process.stdout.read1():
            with self.changed:
                self.output += chunk
                self.changed.notify_all()

    def wait_for(self, count: int):
        """Waits until so many messages are printed."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.output.count(b"\0\n") >= count, PATIENCE), self.output

    def finish(self) -> tuple[bytes, bytes]:
        code = self.process.wait(PATIENCE)
        assert code == 0, self.process.stderr.read()
        return self.output, self.process.stderr.read()


def compared(route, commands, form: str, messages, *options) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """What mosquitto_sub and martlet sub print of the messages, on standard output and standard error."""
    make_ready(route)
    arguments = [*route.plain, "-V", "5", "-q", "2", "-t", READY, "-t", "t/#", "-C", len(messages) + 1, "-F", form + END, "-N", *options]
    both = [Printed("mosquitto_sub", *arguments), Printed(commands.path, "sub", *arguments)]
    for printed in both:
        printed.wait_for(1)
    for number, (payload, topic, qos, properties) in enumerate(messages):
        words = iter(properties)
        given = []
        for name in words:
            given += ["-D", "publish", name, next(words), *([next(words)] if name == "user-property" else [])]
        source = ["-s"] if payload else ["-n"]
        done = run("mosquitto_pub", *route.plain, "-V", "5", "-t", topic, "-q", str(qos), *source, *given, standard_input=payload)
        assert done.code == 0, done
        # A message of QoS 2 is told sooner or later in its handshake: the next comes when both have it.
        for printed in both:
            printed.wait_for(number + 2)
    return both[0].finish(), both[1].finish()


@pytest.mark.parametrize("forms", [FORMATS[start : start + 12] for start in range(0, len(FORMATS), 12)], ids=lambda forms: forms[0])
def test_each_part_of_a_format_is_printed_as_by_mosquitto_sub(server, commands, forms):
    theirs, ours = compared(server, commands, "<" + "><".join(forms) + ">", MESSAGES)
    assert ours == theirs


#: A microsecond more or less is not the format's.
def timeless(text: bytes) -> bytes:
    return re.sub(rb'("tst":\s*"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{6}Z([+-]\d{4}")', rb"\1.Z\2", re.sub(rb":\d\d\.\d{6}Z", rb":00.000000Z", text))


@pytest.mark.parametrize("options", [[], ["--pretty"]], ids=["compact", "pretty"])
@pytest.mark.parametrize("form", ["%j", "%J"])
def test_json_is_that_of_mosquitto_sub_to_the_byte(server, commands, form, options):
    messages = [*MESSAGES, *[(text.encode(), f"t/json/{number}", number % 3, []) for number, text in enumerate(JSON)]]
    theirs, ours = compared(server, commands, form, messages, *options)
    assert timeless(ours[0]) == timeless(theirs[0])
    assert ours[1] == theirs[1]


def test_times_have_mosquitto_subs_form(server, commands):
    theirs, ours = compared(server, commands, "%I|%U|@Y-@m-@dT@H:@M|@N|@s|@Z@z|[%30I]|[%-30I]|[%.10I]", [(b"x", "t/x", 0, [])])
    digits = [re.sub(rb"\d", b"9", printed) for printed, _ in (theirs, ours)]
    assert digits[0] == digits[1]


@pytest.mark.parametrize("options", [[], ["-v"], ["-N"], ["-v", "-N"]], ids=lambda options: " ".join(options) or "plain")
def test_without_a_format_it_is_payload_or_topic_and_payload(server, commands, options):
    payloads = [b"one", b"", b"two\nlines", b"\xff\x00"]
    for number, payload in enumerate(payloads):
        source = ["-s"] if payload else ["-n"]
        assert run("mosquitto_pub", *server.plain, "-i", "p", "-t", "v", "-q", "1", *source, standard_input=payload).code == 0
    outputs = []
    for program in (["mosquitto_sub"], [commands.path, "sub"]):
        session = [*program, *server.plain, "-i", "-".join(program[-1:]).replace("/", ""), "-c", "-q", "1", "-t", "v"]
        assert run(*session, "-E").code == 0
        for payload in payloads:
            source = ["-s"] if payload else ["-n"]
            assert run("mosquitto_pub", *server.plain, "-t", "v", "-q", "1", *source, standard_input=payload).code == 0
        outputs.append(run(*session, "-C", len(payloads), *options).output)
    assert outputs[0] == outputs[1]
