# ruff: noqa: BLE001, PTH208
"""A guest that does, on request, each thing the host must survive. Runs inside the sandbox."""

import json
import os
import random
import socket
import sys
import time

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.tool import ToolResult
from wit_world.imports import logging, secrets, state

CALLS = 0


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "probe"

    def plugin_version(self):
        return "1.0.0"


class Tool(exports.Tool):
    def name(self):
        return "probe"

    def description(self):
        return "Does what it is told."

    def parameters_schema(self):
        return json.dumps({"type": "object", "properties": {"do": {"type": "string"}}})

    def execute(self, args):
        global CALLS
        CALLS += 1
        request = json.loads(args)
        if request.get("do") == "half":
            return ToolResult(False, "half", "on purpose")
        action = globals()["do_" + request.get("do", "echo")]
        if action is do_trip:
            return ToolResult(True, do_trip(request), None)
        return ToolResult(True, json.dumps(action(request)), None)


def attempt(function, *arguments):
    try:
        return {"ok": function(*arguments)}
    except Err as error:
        value = error.value
        return {"err": getattr(value, "name", str(value)).lower().replace("_", "-")}


def do_echo(request):
    return {"calls": CALLS, "request": request}


def do_fail(request):
    raise Err("the weather is bad")


def do_raise(request):
    raise ValueError("bad weather")


def do_loop(request):
    while True:
        pass


def do_sleep(request):
    time.sleep(request["seconds"])


def do_hog(request):
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def do_exit(request):
    sys.exit(3)


def do_print(request):
    print("to standard output")
    print("to standard error", file=sys.stderr)


def do_log(request):
    for _ in range(request.get("times", 1)):
        logging.log_record(
            logging.LogLevel.WARN,
            logging.PluginEvent(
                "execute",
                logging.PluginAction.VALIDATE,
                logging.PluginOutcome.FAILURE,
                12,
                '{"a": 1}',
                request["message"],
            ),
        )


def do_secrets(request):
    return [attempt(secrets.get, name) for name in request["names"]]


def do_budget(request):
    answers = [attempt(secrets.get, "token") for _ in range(1001)]
    return {"within": answers[999], "beyond": answers[1000]}


def do_state(request):
    entry = attempt(state.get, request["key"])
    if isinstance(entry.get("ok"), state.StateEntry):
        entry = {"ok": {"value": entry["ok"].value.decode(), "revision": entry["ok"].revision}}
    expected = request.get("expected")
    return {
        "get": entry,
        "put": attempt(state.put, request["key"], request.get("value", "").encode(), expected),
        "delete": attempt(state.delete, request["key"], request.get("revision", 1)),
    }


def do_trip(request):
    """The same as ``trip.c`` and ``shout.js`` do, so that their answers can be compared."""
    logging.log_record(
        logging.LogLevel.ERROR,
        logging.PluginEvent(
            "execute",
            logging.PluginAction.MEMORY_AUDIT,
            logging.PluginOutcome.FAILURE,
            2**53 - 1,
            '{"n":1}',
            "grüß ☃ 😀",
        ),
    )
    data = bytes(range(256))

    def tell(function, *arguments):
        try:
            found = function(*arguments)
        except Err as error:
            return error.value.name.lower().replace("_", "-")
        if isinstance(found, state.StateEntry):
            return f"{len(found.value)}:{sum(found.value)}:{found.revision}"
        return found

    first, put, conflict, entry = (
        tell(state.get, "k"),
        tell(state.put, "k", data, None),
        tell(state.put, "k", data, None),
        tell(state.get, "k"),
    )
    again = tell(state.put, "k", data, put)
    deleted, last, bad = tell(state.delete, "k", again), tell(state.get, "k"), tell(state.get, "no key")
    secret, missing = tell(secrets.get, "token"), tell(secrets.get, "missing")
    told = [
        "none" if first is None else first,
        put,
        conflict,
        entry,
        again,
        "ok" if deleted is None else deleted,
        "none" if last is None else last,
        bad,
        secret,
        missing,
    ]
    return " ".join(map(str, told))


def do_system(request):
    try:
        files = os.listdir("/")
    except OSError as error:
        files = type(error).__name__
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=1)
        connected = "connected"
    except Exception as error:
        connected = type(error).__name__
    return {
        "files": files,
        "connected": connected,
        "environment": dict(os.environ),
        "arguments": sys.argv[1:],
    }


def do_random(request):
    return [random.random(), os.urandom(8).hex(), time.time()]
