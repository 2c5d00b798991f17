"""A tool that makes the HTTP requests that it is told to make, all at once, and reads what comes."""

from zeroclaw_sdk.guest import Tool, http


class Courier(Tool):
    """Sends and fetches."""

    name = "courier"

    def run(self, url: str, requests: int, content: int) -> int:
        """The bytes that came in all.

        :param requests: how many, side by side.
        :param content: bytes to send with each; with none of them it is a GET.
        """
        body = bytes(content)
        method = "POST" if content else "GET"
        wanted = [http.Request(method, url, data=body if content else None) for _ in range(requests)]
        return sum(len(response.read()) for response in http.many(wanted))
