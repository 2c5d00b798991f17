"""chat: two people meet in a channel of an IRC server (RFC 2812) under TLS, and one hears what the other says."""

from zeroclaw_sdk.guest import Tool, ToolError, sockets


class Chat(Tool):
    """Says something in a channel and returns how it was heard there."""

    name = "chat"

    def run(self, host: str, port: int, channel: str, text: str) -> str:
        with self.joined(host, port, "ann", channel) as ann, self.joined(host, port, "bob", channel) as bob:
            self.until(ann, "JOIN")  # bob is there
            bob.send(f"PRIVMSG {channel} :{text}\r\n".encode())
            heard = self.until(ann, "PRIVMSG")
            for one in (ann, bob):
                one.send(b"QUIT :bye\r\n")
                self.until(one, "ERROR")
        return heard

    def joined(self, host: str, port: int, nick: str, channel: str) -> sockets.Socket:
        server = sockets.connect(host, port, tls="direct", tls_profile="chat")
        server.send(f"NICK {nick}\r\nUSER {nick} 0 * :{nick}\r\n".encode())
        self.until(server, "001")
        server.send(f"JOIN {channel}\r\n".encode())
        self.until(server, "366")  # the end of the names, after one's own JOIN
        return server

    def until(self, server: sockets.Socket, command: str) -> str:
        """The next line of this command. Questions whether one is still there are answered on the way."""
        while True:
            line = server.read_line().decode()
            prefix, _, rest = line.partition(" ") if line.startswith(":") else ("", "", line)
            word = rest.partition(" ")[0]
            if word == command:
                return line
            if word == "PING":
                server.send(b"PONG " + rest.partition(" ")[2].encode() + b"\r\n")
            if word == "ERROR" or (word.startswith(("4", "5")) and word != "422"):
                raise ToolError(f"{prefix} {rest}")
