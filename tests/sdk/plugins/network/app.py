"""Uses every transport in every way a test asks for."""

from zeroclaw_sdk.guest import Tool, http, sockets, websocket

PIECE = bytes(range(256)) * 256


class Network(Tool):
    """Uses the network."""

    name = "network"

    def run(self, how: str, url: str = "", count: int = 1, host: str = "", port: int = 1) -> object:
        match how:
            case "get":
                with http.get(url, params={"q": "ü"}, headers={"X-Tag": ["1", "2"]}) as response:
                    return {
                        "status": response.status,
                        "headers": response.headers.pairs,
                        "text": response.text,
                        "location": response.location,
                    }
            case "json":
                return http.post(url, json={"a": [1, "ü"]}, timeout=60).raise_for_status().json()
            case "method":
                return [http.request(each, url).status for each in ("PUT", "DELETE", "HEAD", "PROPFIND")]
            case "upload":
                return http.post(url, data=(PIECE for _ in range(count))).text
            case "download":
                sizes = [len(chunk) for chunk in http.get(url)]
                return {"size": sum(sizes), "largest": max(sizes)}
            case "many":
                return [
                    each.json() for each in http.many(http.Request("GET", f"{url}/{n}") for n in range(count))
                ]
            case "errors":
                return [str(each) for each in http.many([http.Request("GET", url)] * count, errors=True)]
            case "failure":
                return self.failure(url)
            case "header":
                try:
                    http.get(url, headers={"connection": "close"})
                except ValueError as error:
                    return str(error)
            case "held":
                held = [http.get(url) for _ in range(count)]
                return len(held)
            case "begun":
                for chunk in http.get(url):
                    return len(chunk) > 0
            case "forgotten":
                return [http.get(url).status for _ in range(count)]
            case "websocket":
                return self.websocket(url, count)
            case "no websocket":
                try:
                    websocket.connect(url)
                except websocket.WebSocketError as error:
                    return [type(error).__name__, error.code, str(error)]
            case "wait":
                with websocket.connect(url, subprotocols=["v1"]) as connection:
                    try:
                        connection.receive(timeout=0.5)
                    except TimeoutError:
                        connection.send("still here")
                        return connection.receive()
            case "socket":
                return self.socket(host, port, count)
            case "no socket":
                try:
                    sockets.connect(host, port, tls="starttls" if count else None)
                except sockets.SocketError as error:
                    return [type(error).__name__, error.code, str(error)]
        return None

    def failure(self, url: str) -> object:
        try:
            return http.get(url, timeout=http.Timeout(first_byte=1.0)).text
        except http.HttpError as error:
            return [type(error).__name__, error.code]

    def websocket(self, url: str, count: int) -> object:
        with websocket.connect(url, subprotocols=["v2", "v1"]) as connection:
            seen: list[object] = [connection.subprotocol]
            for number in range(count):
                connection.send(str(number))
            connection.send(b"\x00" * 1000)
            for _ in range(count):
                seen.append(connection.receive())
            seen.append(len(connection.receive()))
            connection.send("bye")
            seen.extend(connection)
        return seen

    def socket(self, host: str, port: int, count: int) -> object:
        with sockets.connect(host, port, tls=None) as stream:
            greeting = stream.read_line()
            data = PIECE * count
            stream.send(b"%d\n" % len(data))
            stream.send(data)
            same = stream.read_exactly(len(data)) == data
            stream.send(b"quit\n")
            rest = stream.read_until(b"\xff")
            return [greeting.decode(), same, rest.decode(), stream.receive().decode()]
