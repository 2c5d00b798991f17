"""plugs: does with ``sockets`` what it is told, by the generated bindings alone, and says what it got."""

import json
import os
import time

from componentize_py_types import Err
from wit_world.imports import secrets
from wit_world.imports import sockets as wit

from zeroclaw_sdk.guest import Tool


def word(error: Err) -> str:
    return "err " + error.value.name.lower().replace("_", "-")


class Plugs(Tool):
    """Runs a script of steps."""

    name = "plugs"

    def run(self, script: str) -> str:
        self.held = {}
        return json.dumps([self.step(*step) for step in json.loads(script)])

    def step(self, action: str, *values):
        try:
            return getattr(self, f"do_{action}")(*values)
        except Err as error:
            return word(error)

    def do_connect(self, key, host, port, mode="PLAINTEXT", profile=None):
        request = wit.ConnectRequest(host=host, port=port, mode=wit.ConnectMode[mode], tls_profile=profile)
        self.held[key] = wit.connect(request)
        return "connected"

    def do_send(self, key, text):
        return self.held[key].send(text.encode())

    def do_negotiate(self, key, text):
        return self.held[key].send_negotiation(text.encode())

    def do_receive(self, key, size):
        return self.read(self.held[key].receive, size)

    def do_hear(self, key, size):
        return self.read(self.held[key].receive_negotiation, size)

    def read(self, look, size):
        """So many bytes, or what came instead."""
        got = b""
        while len(got) < size:
            match look():
                case wit.ReceiveEvent_Data(data):
                    got += data
                case wit.ReceiveEvent_Closed(reason):
                    return f"{got.decode()} closed {reason.name.lower().replace('_', '-')}"
                case _:
                    time.sleep(0.01)
        return got.decode()

    def do_pending(self, key):
        return self.held[key].pending()

    def do_upgrade(self, key):
        return self.held[key].upgrade_tls()

    def do_close(self, key):
        return wit.close(self.held.pop(key))

    def do_drop(self, key):
        self.held.pop(key).__exit__(None, None, None)

    def do_secret(self, name):
        return secrets.get(name)

    def do_trap(self):
        os.abort()

    def do_sleep(self):
        time.sleep(3600)

    def do_spin(self):
        while True:
            pass

    def do_flood(self, key):
        while True:
            self.held[key].send(bytes(16_384))
