"""Hooks of Schemathesis: requests that reach beyond the refusals, and what the document says in words only.

Random ids, paths and programs are nearly always unknown ones. So half of the requests get an id that was started, a
path that is there, a program that runs, or an archive that can be read; the other half goes out as it was generated.
"""

import atexit
import base64
import collections
import functools
import io
import json
import os
import pathlib
import random
import tarfile
import urllib.parse

import jsonschema
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import AllowHeaderMismatch, MissingContentType

RANDOM = random.Random(int(os.environ["FUZZ_SEED"]))
COMMANDS = (["cat"], ["true"], ["false"], ["seq", "20000"], ["sleep", "9"], ["sh", "-c", "printf '\\377'; kill -9 $$"])
PATHS = ("file", "tree", "tree/file", "tree/file/none", "dangling", "/dev/null", "/proc/self/status", "/proc/nothing")
STARTED = collections.deque(maxlen=8)
SHAPED = set()
STATUSES = collections.Counter()


def archive():
    """A tar of a few members, some of which have to be refused, that may be cut."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=RANDOM.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))) as tar:
        for _ in range(RANDOM.randrange(4)):
            member = tarfile.TarInfo(RANDOM.choice(("a", "b/c", "d/e", "ü" * 80, ".", "../up")))
            member.type = RANDOM.choice((tarfile.REGTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE))
            member.linkname = RANDOM.choice(("a", "b/c", "../../up")) if member.issym() else ""
            member.size = RANDOM.randrange(2000) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    whole = made.getvalue()
    return whole if RANDOM.random() < 0.8 else whole[: RANDOM.randrange(len(whole))]


def shaped(name, body):
    """The body with parts that are valid; whatever is no object stays as it is."""
    if not isinstance(body, dict):
        return body
    body = dict(body)
    if name == "run":
        if RANDOM.random() < 0.5:
            token = RANDOM.choice(("secret", "another", "", None, " "))
            body["runHookPayload"] = json.dumps({"agent_token": token, "env": {"A": RANDOM.choice(("", 1))}})
    elif name == "exec_start":
        if RANDOM.random() < 0.5:
            body |= {"command": RANDOM.choice(COMMANDS), "shell": False, "user": None, "group": None, "cwd": None}
        # A stream that follows it is to end.
        if not isinstance(body.get("timeout_sec"), (str, list, dict, bool)):
            body["timeout_sec"] = 0.3
    elif RANDOM.random() < 0.7 and isinstance(body.get("data_b64"), str):
        body["data_b64"] = base64.b64encode(body["data_b64"].encode("utf-8", "replace")).decode()
    return body


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Of a stream Schemathesis looks at each event; the document has the text of all of them, and the events beside it."""
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            if "x-sse-events" in operation:
                events = operation["x-sse-events"]
                one = {"required": ["event", "data"], "properties": {"event": {"enum": list(events)}}}
                operation["responses"]["200"]["content"]["text/event-stream"]["schema"] = one


@schemathesis.check
def events_conform(context, response, case):
    """The data of each event is what the document says of its kind."""
    events = case.operation.definition.raw.get("x-sse-events")
    if events is None or response.status_code != 200:
        return
    for frame in response.content.decode().split("\n\n")[:-1]:
        if not frame.startswith(":"):
            event, data = (line.split(": ", 1)[1] for line in frame.split("\n"))
            validator(events[event]["$ref"]).validate(json.loads(data))


@functools.cache
def validator(reference):
    document = json.loads(pathlib.Path("openapi.json").read_text())
    return jsonschema.Draft202012Validator({"$ref": reference, "components": document["components"]})


@schemathesis.hook
def before_call(context, case, kwargs):
    name = case.operation.definition.raw["operationId"]
    before = (case.body, dict(case.path_parameters), dict(case.query))
    if name in ("run", "exec_start", "exec_stdin"):
        case.body = shaped(name, case.body)
    if RANDOM.random() < 0.5:
        if STARTED and "id" in case.path_parameters:
            case.path_parameters["id"] = urllib.parse.quote(RANDOM.choice(STARTED), safe="")
        if isinstance(case.query.get("path"), str):
            here = os.getcwd() if name == "tar_write" or RANDOM.random() < 0.3 else ""
            case.query["path"] = os.path.join(here, RANDOM.choice(PATHS))
        if name == "tar_write":
            case.body = archive()
    if before != (case.body, case.path_parameters, case.query):
        SHAPED.add(case.id)


@schemathesis.hook
def after_call(context, case, response):
    name = case.operation.definition.raw["operationId"]
    STATUSES[f"{name} {response.status_code}"] += 1
    if name == "exec_start" and response.status_code == 200:
        STARTED.append(json.loads(response.content)["exec_id"])


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """What the document says in words alone is none."""
    if isinstance(failure, MissingContentType):
        # The bare 400 of the server below the routes has no body, and so no type.
        return response.status_code != 400 or response.content != b"" or "service-version" in response.headers
    # What was invalid before may be valid now.
    if isinstance(failure, AcceptedNegativeData) and case.id in SHAPED:
        return False
    # A GET there polls the exec named `start`.
    return not (isinstance(failure, AllowHeaderMismatch) and case.path == "/v1/exec/start")


@schemathesis.serializer("application/x-tar")
def serialize_tar(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@atexit.register
def write_statuses():
    with open("statuses.json", "w") as file:
        json.dump(STATUSES, file)
