"""A plugin that does with WebSocket connections what its arguments say, step by step, and tells what came of each.

The arguments are ``{"steps": [[name, ...], ...]}``; the output is JSON. Connections have numbers, in the order in which they
were made.
"""

import json
import time

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import websocket

connections = []


def code_of(name, number):
    return getattr(websocket, f"CloseCode_{name}")(*([] if number is None else [number]))


def shown_code(code):
    name = type(code).__name__.removeprefix("CloseCode_")
    return [name, getattr(code, "value", None)]


def connect(url, headers=(), subprotocols=(), profile=None):
    made = websocket.connect(
        websocket.ConnectOptions(
            url=url,
            headers=[websocket.Header(name, value) for name, value in headers],
            subprotocols=list(subprotocols),
            tls_profile=profile,
        )
    )
    connections.append(made)
    return "connected"


def send(number, text):
    connections[number].send(websocket.Message_Text(text))
    return "sent"


def send_bytes(number, count):
    connections[number].send(websocket.Message_Binary(bytes(count)))
    return "sent"


def shown(event):
    if isinstance(event, websocket.Event_Message):
        value = event.value.value
        return ["text", value] if isinstance(value, str) else ["binary", len(value)]
    if isinstance(event, websocket.Event_Closed):
        frame = event.value
        return ["closed", None if frame is None else [shown_code(frame.code), frame.reason]]
    return ["failed", event.value.name]


def look(number):
    event = connections[number].receive()
    return None if event is None else shown(event)


def receive(number):
    while (event := connections[number].receive()) is None:
        time.sleep(0.005)
    return shown(event)


def close(number, name=None, code=None, reason=""):
    frame = None if name is None else websocket.CloseFrame(code_of(name, code), reason)
    connections[number].close(frame)
    return "closing"


def subprotocol(number):
    return connections[number].negotiated_subprotocol()


def drop(number):
    with connections[number]:
        pass
    return "dropped"


def looks(number, count):
    """How often it can be looked before the host's patience is used up."""
    for done in range(count):
        try:
            connections[number].receive()
        except Err as error:
            return [done, error.value.name]
    return [count, None]


def sleep(seconds):
    time.sleep(seconds)


def trap():
    raise RuntimeError("on purpose")


STEPS = {
    step.__name__: step
    for step in (connect, send, send_bytes, look, receive, close, subprotocol, drop, looks, sleep, trap)
}


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "chat"

    def plugin_version(self):
        return "1.0.0"


class Tool(exports.Tool):
    def name(self):
        return "chat"

    def description(self):
        return "Speaks WebSocket."

    def parameters_schema(self):
        return '{"type": "object"}'

    def execute(self, args):
        answers = []
        for name, *arguments in json.loads(args)["steps"]:
            try:
                answers.append(STEPS[name](*arguments))
            except Err as error:
                answers.append(["error", error.value.name])
        return exports.tool.ToolResult(success=True, output=json.dumps(answers), error=None)
