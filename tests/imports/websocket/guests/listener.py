"""A channel over one WebSocket: the first message that is sent is the address, what arrives is polled."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import channel
from wit_world.imports import websocket

connection = None


class PluginInfo(exports.PluginInfo):
    def plugin_name(self):
        return "listener"

    def plugin_version(self):
        return "1.0.0"


class Channel(exports.Channel):
    def name(self):
        return "listener"

    def configure(self):
        pass

    def get_channel_capabilities(self):
        return channel.ChannelCapabilities(0)

    def send(self, message):
        global connection
        if message.content == "trap":
            raise RuntimeError("on purpose")
        try:
            if connection is None:
                connection = websocket.connect(websocket.ConnectOptions(message.content, [], [], None))
            else:
                connection.send(websocket.Message_Text(message.content))
        except Err as error:
            raise Err(error.value.name) from None

    def poll_message(self):
        event = None if connection is None else connection.receive()
        if event is None:
            return None
        text = event.value.value if isinstance(event, websocket.Event_Message) else type(event).__name__
        return channel.InboundMessage(
            id="1",
            sender="peer",
            reply_target="peer",
            content=text,
            channel="listener",
            channel_alias=None,
            timestamp=0,
            thread_ts=None,
            interruption_scope_id=None,
            attachments=[],
            subject=None,
        )


Channel.__abstractmethods__ = frozenset()  # no other function is called, since no flag claims one
