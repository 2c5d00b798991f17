# ruff: noqa: BLE001, PTH102, PTH108, PTH116, PTH123, PTH208
"""A plugin that tries everything the empty system should refuse, and says what it got.

The arguments are ``{"probe": name, ...}``; the output is JSON.
"""

import encodings.idna  # noqa: F401 - looked up by name when a host name is resolved
import json
import os
import random
import secrets
import socket
import sys
import time
import uuid

from wit_world import exports


def attempt(action):
    """What the action gave, or the class of the error it raised."""
    try:
        return {"value": action()}
    except Exception as error:
        return {"error": type(error).__name__}


def read_file(path):
    with open(path, "rb") as file:
        return len(file.read())


def write_file(path):
    with open(path, "wb") as file:
        return file.write(b"x")


def files():
    return {
        "list_root": attempt(lambda: os.listdir("/")),
        "list_here": attempt(lambda: os.listdir(".")),
        "read": attempt(lambda: read_file("/etc/hostname")),
        "read_relative": attempt(lambda: read_file("manifest.toml")),
        "write": attempt(lambda: write_file("/tmp/left-behind")),
        "make_directory": attempt(lambda: os.mkdir("/tmp/left-behind")),
        "stat": attempt(lambda: os.stat("/etc/passwd").st_size),
        "remove": attempt(lambda: os.unlink("/etc/passwd")),
    }


def connect(kind, host, port):
    with socket.socket(socket.AF_INET, kind) as plug:
        plug.connect((host, port))
        return "connected"


def bind():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as plug:
        plug.bind(("127.0.0.1", 0))
        return "bound"


def network(host, port):
    return {
        "tcp": attempt(lambda: connect(socket.SOCK_STREAM, host, port)),
        "udp": attempt(lambda: connect(socket.SOCK_DGRAM, host, port)),
        "bind": attempt(bind),
        "lookup": attempt(lambda: len(socket.getaddrinfo("localhost", port))),
    }


def surroundings():
    return {
        "environment": dict(os.environ),
        "arguments": sys.argv,
        "stdin": sys.stdin.read(),
        "terminals": [stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
    }


def speak(out, err):
    print(out, flush=True)
    print(err, file=sys.stderr, flush=True)
    return "spoken"


def fill(bytes):
    sys.stdout.write("o" * bytes)
    sys.stdout.flush()
    sys.stderr.write("e" * bytes + "the end")
    sys.stderr.flush()
    return "filled"


def sleep(seconds):
    before = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - before


def chance():
    return {
        "random": random.random(),
        "urandom": os.urandom(16).hex(),
        "token": secrets.token_hex(16),
        "uuid": str(uuid.uuid4()),
        "wall": time.time(),
        "monotonic": time.monotonic_ns(),
    }


def random_bytes(count):
    return len(os.urandom(count))


def leave(status):
    os._exit(status)


PROBES = {
    "files": files,
    "network": network,
    "surroundings": surroundings,
    "speak": speak,
    "fill": fill,
    "sleep": sleep,
    "chance": chance,
    "random_bytes": random_bytes,
    "leave": leave,
    "nothing": lambda: None,
}


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "probe"

    def plugin_version(self):
        return "1.0.0"


class Tool(exports.Tool):
    def name(self):
        return "probe"

    def description(self):
        return "Tries what the empty system refuses."

    def parameters_schema(self):
        return '{"type": "object"}'

    def execute(self, args):
        arguments = json.loads(args)
        arguments.pop("__config", None)
        answer = PROBES[arguments.pop("probe")](**arguments)
        return exports.tool.ToolResult(success=True, output=json.dumps(answer), error=None)
