"""What schemathesis has to know of the API beyond its description; it imports this by the name in SCHEMATHESIS_HOOKS."""

import os

import schemathesis

#: Bytes of a request's first line, beyond which the answer is 414 before anybody looks at what is asked.
FIRST_LINE_BYTES_MAX = 8192
#: A client that is there.
CLIENT = os.environ["MARTLET_CLIENT"]


@schemathesis.hook
def filter_case(context, case):
    """Leaves out what no description can tell: lines that are too long, cursors, which only an answer before gives, and listeners' names."""
    if (case.path_parameters or {}).get("name") == "admin":
        return False  # the token with which it asks
    if len(case.as_transport_kwargs(base_url="")["url"].encode()) + sum(len(part) for part in query(case)) > FIRST_LINE_BYTES_MAX // 2:
        return False
    is_right = case.meta and case.meta.generation.mode.is_positive
    if is_right and isinstance(case.body, dict) and "until" in case.body:
        return False  # a time within 24 hours from now
    return not (is_right and {"cursor", "listener"} & set(case.query or {}))


def query(case):
    """What the query's names and values take in the line, were each byte percent-encoded."""
    for name, value in (case.query or {}).items():
        yield from ("   " * len(str(text).encode(errors="replace")) for text in [name, value])


@schemathesis.hook
def map_case(context, case):
    """Asks for the client that is there as often as for those that are not."""
    name = (case.path_parameters or {}).get("clientid")
    if isinstance(name, str) and case.meta and case.meta.generation.mode.is_positive and len(name) % 2:
        case.path_parameters["clientid"] = CLIENT
    if case.meta and case.meta.generation.mode.is_positive:
        make_right(case.operation.definition.raw["operationId"], case)
    return case


def make_right(operation, case):
    """What a ban is for has the shape that its kind asks for, and its end is to come; a bridge goes nowhere; nobody publishes to a filter; and the
    broker that is asked does not end."""
    if operation == "liftBan":
        case.path_parameters["as"] = "clientid"
    if operation == "ban" and isinstance(case.body, dict):
        case.body["as"] = "clientid"
        case.body.pop("until", None)
    if operation == "getMay" and isinstance(case.query, dict):
        if case.query.get("action") != "subscribe":
            case.query["topic"] = "plant/7"
        if "attributes" in case.query:
            case.query["attributes"] = "floor=2,site=a"
    if operation == "explainLogin" and isinstance(case.body, dict) and {"action", "topic"} & set(case.body):
        case.body |= {"action": "publish", "topic": "plant/7"}
    if operation == "addBridge" and isinstance(case.body, dict):
        case.body = {"name": f"b{len(case.body)}", "address": "127.0.0.1:9", "topic": ["a out 1"], "start_type": "once"}
    if operation == "changeBridge" and isinstance(case.body, dict):
        case.body = {"keepalive_interval": 17}
    if operation == "drain" and isinstance(case.body, dict):
        case.body.pop("stop", None)
