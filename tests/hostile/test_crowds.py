"""Many hostile calls at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from attacks import HARMLESS, answering
from attacks.attack import HASTY, tool
from attacks.spinning import FOREVER

from zeroclaw_host.errors import DeadlineExceeded, PluginError
from zeroclaw_host.sandbox.conversion import Conversion
from zeroclaw_host.sandbox.limits import Limits
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_host.worlds.tool import ToolPlugin

THREADS = 4


@pytest.fixture
def four_threads(sandbox: Sandbox, conversion: Conversion) -> Iterator[Sandbox]:
    """A sandbox of few threads on the same cache."""
    with Sandbox(sandbox.cache.directory, threads=THREADS, conversion=conversion) as found:
        yield found


@pytest.mark.req("PLG-019", "PAINS-5")
def test_eight_endless_loops_on_four_threads_all_end_at_their_deadline_and_a_ninth_call_works(
    four_threads: Sandbox, load_tool_into: Callable[..., ToolPlugin]
) -> None:
    endless = load_tool_into(four_threads, tool(FOREVER)(), HASTY)
    good = load_tool_into(four_threads, answering(HARMLESS)(), Limits())

    def loop(_: int) -> str:
        with pytest.raises(DeadlineExceeded) as caught:
            endless.execute_sync({})
        return caught.value.code

    with ThreadPoolExecutor(2 * THREADS) as callers:
        assert list(callers.map(loop, range(2 * THREADS))) == ["deadline_exceeded"] * 2 * THREADS
    assert good.execute_sync({}).output == "harmless"


def test_good_calls_come_through_while_every_other_one_is_an_attack(
    four_threads: Sandbox, load_tool_into: Callable[..., ToolPlugin]
) -> None:
    """Each caller gets the end of its own call, and no other's."""
    kinds = {
        "guest_trap": load_tool_into(four_threads, tool("unreachable")(), Limits()),
        "out_of_fuel": load_tool_into(four_threads, tool(FOREVER)(), Limits(call_fuel=100_000)),
        "": load_tool_into(four_threads, answering(HARMLESS)(), Limits()),
    }

    def one(number: int) -> bool:
        expected = list(kinds)[number % len(kinds)]
        return end_of(kinds[expected]) == expected

    with ThreadPoolExecutor(THREADS) as callers:
        assert all(callers.map(one, range(300)))


def end_of(found: ToolPlugin) -> str:
    """The code word of the error a call ends with, or nothing."""
    try:
        found.execute_sync({})
    except PluginError as error:
        return error.code
    return ""
