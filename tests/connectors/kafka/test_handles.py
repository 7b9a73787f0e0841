"""Handles of librdkafka: the garbage collector may find one in the handle's own thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_COLLECT = """
import gc, sys, time
from types import SimpleNamespace
from confluent_kafka import Consumer
from connectors.aws import AwsIdentity
from connectors.kafka import handles

signed = 0

def msk_token(identity):
    global signed
    signed += 1
    if signed > 2:
        print("collected", gc.collect() > 0, len(handles._undestroyed), flush=True)
    return "token", time.time() + 1.5  # another one is wanted before it ends

gc.disable()
handles.msk_token = msk_token
login = SimpleNamespace(aws=AwsIdentity("eu-west-1"))
settings = {
    "bootstrap.servers": "127.0.0.1:1",
    "group.id": "g",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "OAUTHBEARER",
}
cycle = [handles.new_handle(Consumer, login, settings, handles.ClientErrors())]
cycle.append(cycle)
del cycle
deadline = time.monotonic() + 30
while not handles._undestroyed and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.5)  # the callback has ended
handles.new_handle(Consumer, SimpleNamespace(aws=None), {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"},
                   handles.ClientErrors())
before, _ = signed, time.sleep(3)
print("left", len(handles._undestroyed), "signed later", signed - before)
"""


def test_a_handle_that_is_found_in_its_own_thread_is_destroyed_in_another_one() -> None:
    """librdkafka aborts the process otherwise."""
    done = subprocess.run(
        [sys.executable, "-c", _COLLECT], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "collected True 1\nleft 0 signed later 0\n"
