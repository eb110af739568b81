"""python_client.py URL: a command's life by the client that openapi-python-client makes of the document."""

import base64
import io
import sys

from guestd_client import AuthenticatedClient, Client
from guestd_client.api.commands import exec_ack, exec_poll, exec_start, exec_stdin, exec_stream
from guestd_client.api.daemon import health
from guestd_client.api.files import file_write, tar_read, tar_write
from guestd_client.api.hooks import run
from guestd_client.models import Phase, RunHookEnvelope, StartRequest, StdinRequest, StdinRequestSignalType0
from guestd_client.types import File

url, scratch = sys.argv[1:]
anybody = Client(base_url=url)
assert not health.sync(client=anybody).bootstrapped
body = RunHookEnvelope(run_hook_payload='{"agent_token":"secret"}')
assert run.sync_detailed(client=anybody, body=body).status_code == 200
assert exec_poll.sync_detailed("none", client=AuthenticatedClient(base_url=url, token="other")).status_code == 401

guest = AuthenticatedClient(base_url=url, token="secret")
assert exec_poll.sync("none", client=guest).error == "unknown_exec"
body = StartRequest(exec_id="a/b", command=["cat"], stdin=True)
assert exec_start.sync(client=guest, body=body).phase == Phase.RUNNING
assert exec_ack.sync("a/b", client=guest).error == "still_running"
body = StdinRequest(data_b64=base64.b64encode(b"hello").decode(), signal=StdinRequestSignalType0.EOF)
assert exec_stdin.sync("a/b", client=guest, body=body).written == 5
# It ends with the command.
assert b"event: exit" in exec_stream.sync_detailed("a/b", client=guest, offset=0).content
assert exec_poll.sync("a/b", client=guest).phase == Phase.EXITED
outcome = exec_ack.sync("a/b", client=guest)
assert (outcome.phase, outcome.exit_code, outcome.stdout) == (Phase.ACKED, 0, "hello"), outcome

assert file_write.sync_detailed(client=guest, path=f"{scratch}/tree/file", body=File(io.BytesIO(b"x"))).status_code == 204
archive = tar_read.sync_detailed(client=guest, path=f"{scratch}/tree").content
put = tar_write.sync_detailed(client=guest, path=f"{scratch}/copy", body=File(io.BytesIO(archive)))
assert put.status_code == 204, put.content
print("all of it works")
