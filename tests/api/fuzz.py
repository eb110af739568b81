"""fuzz.py GUESTD COUNT SEED: at least COUNT requests of Schemathesis to a daemon that may be broken by them.

Fails where an answer is none that the daemon's OpenAPI document describes, where the log tells of a failure that nobody
foresaw, or where the daemon does not end in an orderly way at last. Run by `build.sh fuzz-api`, contained, in a directory of its own.
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
SETTINGS = {
    "GUESTD_LISTEN": "127.0.0.1:9000",
    "GUESTD_SPOOL_DIR": os.getcwd(),
    "GUESTD_DISK_RESERVE_BYTES": "1048576",
    # A child that does not read, listen or end is not to hold the requests up.
    "GUESTD_STDIN_WRITE_TIMEOUT_SECS": "0.1",
    "GUESTD_KILL_GRACE_SECS": "0.1",
    "GUESTD_OUTPUT_LINGER_SECS": "0.1",
    "GUESTD_EXEC_TTL_SECS": "2",
}
URL = f"http://{SETTINGS['GUESTD_LISTEN']}"


def ask(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request) as answer:
        return answer.status


def started(launcher):
    """The daemon once it listens, with what copies its log into a file."""
    daemon = subprocess.Popen([launcher], stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"], **SETTINGS})
    copy = subprocess.Popen(["tee", "log"], stdin=daemon.stderr, stdout=subprocess.PIPE)
    for line in copy.stdout:
        if json.loads(line)["msg"] == "listening":
            break
    # What is not read would stop the copy.
    subprocess.Popen(["cat"], stdin=copy.stdout, stdout=subprocess.DEVNULL)
    return daemon, copy


def fuzz(phases, examples, seed, statuses):
    """One run of Schemathesis, whose answers are counted; whether it found nothing."""
    options = {
        "url": URL,
        "header": "Authorization:Bearer secret",
        "phases": phases,
        "max-examples": str(examples),
        "seed": str(seed),
        "checks": "all",
        # What a route may answer with 5xx is in the document, and so is a matter of status_code_conformance. Whether a
        # valid request is granted is up to what is there: an exec, a file, a line.
        "exclude-checks": "not_a_server_error,positive_data_acceptance",
        # A daemon ends but once.
        "exclude-operation-id": "terminate",
        "request-timeout": "20",
        "suppress-health-check": "all",
        "generation-database": "none",
        "warnings": "off",
    }
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", "openapi.json"]
    command += ["--continue-on-failure", "--no-color"] + [f"--{name}={value}" for name, value in options.items()]
    path = f"{HERE}:{os.environ['PYTHONPATH']}"
    environment = dict(os.environ, PYTHONPATH=path, SCHEMATHESIS_HOOKS="fuzz_hooks", FUZZ_SEED=str(seed))
    code = subprocess.run(command, env=environment).returncode
    statuses.update(json.loads(pathlib.Path("statuses.json").read_text()))
    return code == 0


def main(launcher, count, seed):
    count, seed = int(count), int(seed)
    # As the first process of its namespace it would not hear the alarm otherwise; the others end with it.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(124))
    signal.alarm(180 + count // 8)
    with open("openapi.json", "w") as document:
        subprocess.run([launcher, "--print-openapi"], stdout=document, check=True)
    os.mkdir("tree")
    daemon, copy = started(launcher)
    ask("/platform/runtime/v1/run", {"runHookPayload": json.dumps({"agent_token": "secret"})})
    statuses, faults, began = collections.Counter(), [], time.monotonic()
    phases = "examples,coverage,fuzzing,stateful"
    while not faults and statuses.total() < count:
        missing = count - statuses.total()
        if not fuzz(phases, max(10, min(100, missing // 25)), seed, statuses):
            faults.append(f"Schemathesis found something; its seed was {seed}")
        # What covers each keyword of the document once has no other requests the next time.
        phases, seed = "fuzzing,stateful", seed + 1
    if daemon.poll() is not None:
        faults.append(f"the daemon has ended with {daemon.returncode}")
    elif ask("/platform/runtime/v1/terminate", {}) != 200 or daemon.wait(30) != 0:
        faults.append("terminate did not end the daemon in an orderly way")
    copy.wait(30)
    lines = [json.loads(line) for line in pathlib.Path("log").read_bytes().splitlines()]
    faults += [json.dumps(line) for line in lines if line["level"] == "error"]
    for name, number in sorted(statuses.items()):
        print(f"{number:8} {name}")
    print(f"{statuses.total()} requests in {time.monotonic() - began:.0f} s, {len(faults)} faults")
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
