"""mail: says how many messages a mailbox has, from an IMAP server (RFC 9051) by way of STARTTLS."""

from dataclasses import dataclass

from zeroclaw_sdk.guest import SECRET, Secret, Tool, ToolError, sockets


@dataclass
class Config:
    """The properties of ``config_schema`` in the manifest."""

    ca: Secret = SECRET
    password: Secret = SECRET


class Mail(Tool):
    """Counts the messages of a mailbox."""

    name = "mail"
    config: Config

    def run(self, host: str, port: int, user: str, mailbox: str = "INBOX") -> str:
        with sockets.connect(host, port, tls="starttls", tls_profile="mail") as server:
            greeting = server.read_line().decode()
            if not greeting.startswith("* OK"):
                raise ToolError(greeting)
            self.asks(server, "a1 STARTTLS")
            server.start_tls()
            self.asks(server, f'a2 LOGIN {user} "{self.config.password.get()}"')
            found = [line for line in self.asks(server, f"a3 SELECT {mailbox}") if line.endswith(" EXISTS")]
            goodbye = self.asks(server, "a4 LOGOUT")
        return f"{found[0].split()[1]} messages, {goodbye[0][2:5]}"

    def asks(self, server: sockets.Socket, command: str) -> list[str]:
        """The server's lines up to its answer, which must be OK."""
        server.send(command.encode() + b"\r\n")
        tag = command.partition(" ")[0]
        lines: list[str] = []
        while not lines or not lines[-1].startswith(f"{tag} "):
            lines.append(server.read_line().decode())
        if not lines[-1].startswith(f"{tag} OK"):
            raise ToolError(lines[-1])
        return lines
