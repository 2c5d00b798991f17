"""A tool that does a list of steps over HTTP and says what came of each. Runs inside the sandbox.

The arguments are ``{"steps": [...]}``. A step is a request, or ``{"let_go": true}``, which drops what was kept.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import outgoing_handler
from wit_world.imports import wasi_http_types as types
from wit_world.imports.streams import StreamError_Closed

METHODS = {
    "get": types.Method_Get,
    "head": types.Method_Head,
    "post": types.Method_Post,
    "put": types.Method_Put,
}
SCHEMES = {"http": types.Scheme_Http, "https": types.Scheme_Https}

kept = []


def kebab(name):
    """``ErrorCode_DnsError`` as ``dns-error``."""
    text = name.partition("_")[2]
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in text).lstrip("-")


def told(code):
    payload = getattr(code, "value", None)
    if payload is not None and not isinstance(payload, (str, int)):
        payload = vars(payload)
    return {"error": kebab(type(code).__name__), "payload": payload}


def lines(fields):
    return [[name, value.decode("latin-1")] for name, value in fields.entries()]


def fields_of(entries):
    return types.Fields.from_list([(name, value.encode("latin-1")) for name, value in entries])


def request_of(step):
    request = types.OutgoingRequest(fields_of(step.get("headers", [])))
    method = step.get("method", "get")
    request.set_method(METHODS[method]() if method in METHODS else types.Method_Other(method))
    scheme = step.get("scheme", "http")
    if scheme is not None:
        request.set_scheme(SCHEMES[scheme]() if scheme in SCHEMES else types.Scheme_Other(scheme))
    request.set_authority(step.get("authority"))
    request.set_path_with_query(step.get("path", "/"))
    return request


def options_of(step):
    options = types.RequestOptions()
    options.set_connect_timeout(step.get("connect"))
    options.set_first_byte_timeout(step.get("first_byte"))
    options.set_between_bytes_timeout(step.get("between_bytes"))
    return options


def write(body, step):
    content = step["body"].encode("latin-1") * step.get("times", 1)
    stream = body.write()
    try:
        start = 0
        while start < len(content):
            stream.subscribe().block()
            size = min(stream.check_write(), len(content) - start)
            stream.write(content[start : start + size])
            start += size
        stream.flush()
    finally:
        stream.__exit__(None, None, None)


def read(stream, most):
    """What is read of a body, at most so many bytes, and the error at its end."""
    found, error = bytearray(), None
    while most is None or len(found) < most:
        try:
            found += stream.blocking_read(65536 if most is None else most - len(found))
        except Err as ending:
            if not isinstance(ending.value, StreamError_Closed):
                error = told(types.http_error_code(ending.value.value))
            break
    return bytes(found), error


def shown(found):
    return found.decode("latin-1") if len(found) <= 2048 else f"{len(found)}:{sum(found)}"


def fetch(step):
    request = request_of(step)
    body = request.body() if "body" in step else None
    future = outgoing_handler.handle(request, options_of(step))
    if body is not None:
        write(body, step)
        trailers = step.get("trailers")
        types.OutgoingBody.finish(body, None if trailers is None else fields_of(trailers))
    future.subscribe().block()
    found = future.get()
    assert found is not None
    if isinstance(found.value, Err):
        raise found.value
    with found.value.value as response:
        answer = {"status": response.status(), "headers": lines(response.headers())}
        if step.get("drop"):
            return answer
        incoming = response.consume()
    stream = incoming.stream()
    found, error = read(stream, step.get("most"))
    answer["body"] = len(found) if step.get("quiet") else shown(found)
    if error is not None:
        answer["ended"] = error
    if step.get("keep"):
        kept.append((stream, incoming))
        return answer
    stream.__exit__(None, None, None)
    if not step.get("ask_trailers"):
        incoming.__exit__(None, None, None)
        return answer
    with types.IncomingBody.finish(incoming) as trailers:
        trailers.subscribe().block()
        given = trailers.get().value.value
        answer["trailers"] = None if given is None else lines(given)
    return answer


def let_go():
    while kept:
        stream, incoming = kept.pop()
        stream.__exit__(None, None, None)
        incoming.__exit__(None, None, None)
    return {"gone": True}


def header(step):
    """What the interface says of a field."""
    try:
        fields = fields_of([])
        fields.append(step["name"], step["value"].encode("latin-1"))
        return {"fields": lines(fields), "has": fields.has(step["name"].upper())}
    except Err as error:
        return {"refused": kebab(type(error.value).__name__)}


def work(step):
    try:
        if "let_go" in step:
            return let_go()
        return header(step) if "name" in step else fetch(step)
    except Err as error:
        return told(error.value)


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "surfer"

    def plugin_version(self):
        return "1.0.0"


class Tool(exports.Tool):
    def name(self):
        return "surfer"

    def description(self):
        return "Makes HTTP requests."

    def parameters_schema(self):
        return '{"type": "object"}'

    def execute(self, args):
        answers = [work(step) for step in json.loads(args)["steps"]]
        return exports.tool.ToolResult(success=True, output=json.dumps(answers), error=None)
