"""Channels forged for tests: one that does nothing, one that answers everything, and some that do one thing."""

from __future__ import annotations

from collections.abc import Mapping

from forge import Forge

from zeroclaw_host.contract import FlagsType, contract
from zeroclaw_host.sandbox.values import Err, Ok

_ERR = "(i32.store8 (i32.const {at}) (i32.const 1)) (i32.store (i32.const {ptr_at}) {ptr}) (i32.store (i32.const {len_at}) {size}) (i32.const {at})"


def flags() -> tuple[str, ...]:
    """Every label of ``channel-capabilities``, in the order of its bits."""
    result = contract().interface("zeroclaw:plugin/channel").functions["get-channel-capabilities"].result
    assert isinstance(result, FlagsType)
    return result.labels


def bits(*labels: str) -> int:
    """The flags as a number."""
    return sum(1 << flags().index(label) for label in labels)


def refusal(ptr: str, size: str) -> str:
    """A body's last words: ``err`` with a text."""
    return _ERR.format(at=16, ptr_at=20, len_at=24, ptr=ptr, size=size)


def silent() -> bytes:
    """Claims nothing, and every export that is not asked at load is a trap."""
    return Forge("channel-plugin").component()


def everything(*, bodies: Mapping[str, str] | None = None) -> bytes:
    """Claims all and answers it with constants; what the host must never call is a trap."""
    done = ("send", "start-typing", "stop-typing", "update-draft", "update-draft-progress", "finalize-draft")
    done += (
        "cancel-draft",
        "add-reaction",
        "remove-reaction",
        "pin-message",
        "unpin-message",
        "redact-message",
    )
    answers: dict[str, object] = {
        **{f"channel.{function}": Ok() for function in done},
        "channel.get-channel-capabilities": frozenset(flags()),
        "channel.health-check": False,
        "channel.supports-draft-updates": True,
        "channel.send-draft": Ok("draft-1"),
        "channel.request-choice": Ok("b"),
        "channel.request-approval": Ok(("deny-with-edit", "less")),
        "channel.parse-webhook": Err(("unauthorized", "no token")),
        "channel.supports-free-form-ask": False,
        "channel.webhook-path": "hook",
        "channel.self-handle": "bot",
        "channel.self-addressed-mention": "<@bot>",
        "channel.multi-message-delay-ms": 250,
        "channel.poll-message": None,
    }
    return Forge("channel-plugin").component(returns=answers, bodies=bodies)


def counting() -> bytes:
    """``send`` answers with an error that says how many there were; ``health-check``, whether its flags were read once;
    ``start-typing`` is a trap."""
    return Forge("channel-plugin").component(
        extra="(global $sent (mut i32) (i32.const 0)) (global $read (mut i32) (i32.const 0))",
        bodies={
            "channel.send": f"""
              (global.set $sent (i32.add (global.get $sent) (i32.const 1)))
              (i32.store8 (i32.const 64) (i32.add (i32.const 48) (global.get $sent)))
              {refusal("(i32.const 64)", "(i32.const 1)")}""",
            "channel.get-channel-capabilities": f"""
              (global.set $read (i32.add (global.get $read) (i32.const 1)))
              (i32.const {bits("health-check", "start-typing")})""",
            "channel.health-check": "(i32.eq (global.get $read) (i32.const 1))",
        },
    )


def asking() -> bytes:
    """Reads its configuration in ``configure``, and refuses an empty one; shows it as its handle.

    ``request-choice`` answers with the secret, and is a trap unless its first letter is the configuration's last one;
    ``health-check`` says whether it could take a message; ``stop-typing`` takes one and traps; ``start-typing`` traps.
    """
    claims = bits("self-handle", "health-check", "start-typing", "stop-typing", "request-choice")
    return Forge("channel-plugin").component(
        imports=("config.get", "secrets.get", "inbound.inbound-poll"),
        extra="""
          (global $text (mut i32) (i32.const 0)) (global $size (mut i32) (i32.const 0))
          (data (i32.const 64) "token") (data (i32.const 80) "too short")
          (func $configuration (result i32)
            (call $config.get (i32.const 256))
            (global.set $text (i32.load (i32.const 260)))
            (global.set $size (i32.load (i32.const 264)))
            (i32.eqz (i32.load8_u (i32.const 256))))""",
        bodies={
            "channel.configure": f"""
              (if (i32.eqz (call $configuration)) (then unreachable))
              (if (i32.lt_u (global.get $size) (i32.const 3))
                (then {refusal("(i32.const 80)", "(i32.const 9)")} return))
              (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)""",
            "channel.get-channel-capabilities": f"""
              (call $config.get (i32.const 288))
              (if (i32.eqz (i32.load8_u (i32.const 288))) (then unreachable))
              (i32.const {claims})""",
            "channel.self-handle": refusal("(global.get $text)", "(global.get $size)"),
            "channel.request-choice": """
              (local $secret i32)
              (if (i32.eqz (call $configuration)) (then unreachable))
              (call $secrets.get (i32.const 64) (i32.const 5) (i32.const 320))
              (if (i32.load8_u (i32.const 320)) (then unreachable))
              (local.set $secret (i32.load (i32.const 324)))
              (if (i32.gt_u (global.get $size) (i32.const 18))
                (then (if (i32.ne (i32.load8_u (local.get $secret))
                        (i32.load8_u (i32.sub (i32.add (global.get $text) (global.get $size)) (i32.const 3))))
                  (then unreachable))))
              (i32.store8 (i32.const 16) (i32.const 0))
              (i32.store8 (i32.const 20) (i32.const 1))
              (i32.store (i32.const 24) (local.get $secret))
              (i32.store (i32.const 28) (i32.load (i32.const 328)))
              (i32.const 16)""",
            "channel.health-check": "(call $inbound.inbound-poll (i32.const 512)) (i32.load8_u (i32.const 512))",
            "channel.stop-typing": "(call $inbound.inbound-poll (i32.const 512)) unreachable",
        },
    )


def reporting() -> bytes:
    """``send`` answers with an error that says what ``config.get`` and then ``secrets.get`` of ``token`` gave in ``configure``, in
    ``self-handle``, in ``poll-message`` and in ``send`` itself: ``k`` for a value, else the number of the error's case."""
    return Forge("channel-plugin").component(
        imports=("config.get", "secrets.get"),
        extra="""
          (data (i32.const 64) "token") (data (i32.const 600) "--------")
          (func $letter (param $at i32) (result i32)
            (if (result i32) (i32.load8_u (local.get $at))
              (then (i32.add (i32.const 48) (i32.load8_u (i32.add (local.get $at) (i32.const 4)))))
              (else (i32.const 107))))
          (func $ask (param $at i32)
            (call $config.get (i32.const 256))
            (i32.store8 (local.get $at) (call $letter (i32.const 256)))
            (call $secrets.get (i32.const 64) (i32.const 5) (i32.const 320))
            (i32.store8 (i32.add (local.get $at) (i32.const 1)) (call $letter (i32.const 320))))""",
        bodies={
            "channel.configure": """
              (call $ask (i32.const 600)) (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)""",
            "channel.get-channel-capabilities": f"(i32.const {bits('self-handle')})",
            "channel.self-handle": f"""
              (call $ask (i32.const 602)) {refusal("(i32.const 64)", "(i32.const 5)")}""",
            "channel.poll-message": """
              (call $ask (i32.const 604)) (i32.store8 (i32.const 512) (i32.const 0)) (i32.const 512)""",
            "channel.send": f"""
              (call $ask (i32.const 606)) {refusal("(i32.const 600)", "(i32.const 8)")}""",
        },
    )


def echoing() -> bytes:
    """``poll-message`` gives back content and attachments of the last ``send``, as of a channel named ``forged``."""
    return Forge("channel-plugin").component(
        extra="""
          (global $text (mut i32) (i32.const 0)) (global $size (mut i32) (i32.const 0))
          (global $files (mut i32) (i32.const 0)) (global $count (mut i32) (i32.const 0))
          (data (i32.const 64) "forged")""",
        bodies={
            "channel.send": """
              (global.set $text (local.get 0)) (global.set $size (local.get 1))
              (global.set $files (local.get 10)) (global.set $count (local.get 11))
              (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)""",
            "channel.poll-message": """
              (i32.store8 (i32.const 512) (i32.const 1))
              (i32.store (i32.const 544) (global.get $text)) (i32.store (i32.const 548) (global.get $size))
              (i32.store (i32.const 552) (i32.const 64)) (i32.store (i32.const 556) (i32.const 6))
              (i64.store (i32.const 576) (i64.const 1099511627776))
              (i32.store (i32.const 608) (global.get $files)) (i32.store (i32.const 612) (global.get $count))
              (i32.const 512)""",
        },
    )


def hooked() -> bytes:
    """``parse-webhook`` replies how often this instance was configured and asked; ``health-check``: never, so far."""
    return Forge("channel-plugin").component(
        extra="""
          (global $configured (mut i32) (i32.const 0)) (global $parsed (mut i32) (i32.const 0))
          (data (i32.const 64) "configured 0, parsed 0")""",
        returns={"channel.get-channel-capabilities": frozenset({"webhook-ingress", "health-check"})},
        bodies={
            "channel.configure": """
              (global.set $configured (i32.add (global.get $configured) (i32.const 1)))
              (i32.store8 (i32.const 16) (i32.const 0)) (i32.const 16)""",
            "channel.parse-webhook": """
              (global.set $parsed (i32.add (global.get $parsed) (i32.const 1)))
              (i32.store8 (i32.const 75) (i32.add (i32.const 48) (global.get $configured)))
              (i32.store8 (i32.const 85) (i32.add (i32.const 48) (global.get $parsed)))
              (i32.store8 (i32.const 16) (i32.const 0))
              (i32.store8 (i32.const 20) (i32.const 1))
              (i32.store (i32.const 24) (i32.const 64)) (i32.store (i32.const 28) (i32.const 22))
              (i32.const 16)""",
            "channel.health-check": "(i32.eqz (global.get $parsed))",
        },
    )
