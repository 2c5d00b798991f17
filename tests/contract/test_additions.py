"""A component from before an addition still fits, and one that lacks half of it does not."""

from __future__ import annotations

import pytest

from zeroclaw_host.contract import FlagsType, InterfaceType, contract
from zeroclaw_host.contract import additions as module
from zeroclaw_host.contract.additions import ADDITIONS, Addition, as_built

CHANNEL = contract().interface("zeroclaw:plugin/channel")


def labels(interface: InterfaceType) -> tuple[str, ...]:
    result = interface.functions["get-channel-capabilities"].result
    assert isinstance(result, FlagsType)
    return result.labels


@pytest.mark.req("PLG-037")
def test_every_addition_is_in_the_contract_with_its_label_at_the_end():
    tails: dict[str, list[str]] = {}
    for addition in ADDITIONS:
        known = contract().interface(addition.interface)
        assert set(addition.functions) <= set(known.functions)
        tails.setdefault(addition.interface, []).append(addition.label)
    for name, added in tails.items():
        flags = next(
            kind for kind in contract().interface(name).types.values() if isinstance(kind, FlagsType)
        )
        assert list(flags.labels[-len(added) :]) == added


@pytest.mark.req("PLG-037")
def test_a_component_without_the_functions_is_held_against_the_interface_without_them():
    found = as_built(CHANNEL, set(CHANNEL.functions) - {"webhook-path", "parse-webhook"})
    assert labels(found) == labels(CHANNEL)[:-1]
    assert set(CHANNEL.functions) - set(found.functions) == {"webhook-path", "parse-webhook"}


@pytest.mark.req("PLG-037")
@pytest.mark.parametrize("kept", ["webhook-path", "parse-webhook"])
def test_a_component_with_any_of_the_functions_is_held_against_all_of_it(kept):
    others = {"webhook-path", "parse-webhook"} - {kept}
    assert as_built(CHANNEL, set(CHANNEL.functions) - others) is CHANNEL


def test_another_interface_is_left_as_it_is():
    memory = contract().interface("zeroclaw:plugin/memory")
    assert as_built(memory, ()) is memory


@pytest.mark.req("PLG-037")
@pytest.mark.parametrize(
    ("missing", "lost"),
    [
        ((), 0),
        (("parse-webhook",), 1),
        (("webhook-path", "parse-webhook"), 2),
        (("webhook-path",), 0),
    ],
)
def test_the_next_addition_goes_to_the_end_and_only_a_tail_may_lack(missing, lost, monkeypatch):
    # Were the two functions two additions, the later one could lack alone and the earlier one not.
    earlier = Addition(CHANNEL.name, "supports-free-form-ask", ("webhook-path",))
    later = Addition(CHANNEL.name, "webhook-ingress", ("parse-webhook",))
    monkeypatch.setattr(module, "ADDITIONS", (earlier, later))
    found = as_built(CHANNEL, set(CHANNEL.functions) - set(missing))
    assert labels(found) == (labels(CHANNEL)[:-lost] if lost else labels(CHANNEL))
