"""counter: counts things by name, and remembers the counts when the daemon ends and when the plugin is updated."""

from typing import Annotated

from zeroclaw_sdk.guest import Param, StateError, Tool, ToolError, state

ATTEMPTS = 10
"""Several calls may run at once. Whoever comes second counts again from what the first one wrote."""


class Counter(Tool):
    """Adds to a count and returns what it is then."""

    name = "counter"

    def run(
        self,
        thing: Annotated[
            str, Param(description="What is counted.", max_length=100, pattern="^[A-Za-z0-9_.-]+$")
        ] = "calls",
        add: Annotated[int, Param(description="How many more there are.", minimum=0, maximum=1000)] = 1,
    ) -> int:
        for _ in range(ATTEMPTS):
            entry = state.get(thing)
            count = (int(entry.value) if entry else 0) + add
            try:
                # The revision says what this count rests on. A new one must not be there yet.
                state.put(thing, str(count).encode(), entry.revision if entry else None)
            except StateError as error:
                if error.word == "quota-exceeded":
                    raise ToolError("there are too many things to count one more") from error
                if error.word != "conflict":
                    raise
            else:
                return count
        raise ToolError(f"too many others count {thing} at the same moment")
