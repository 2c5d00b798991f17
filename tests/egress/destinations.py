"""Hosts and addresses, and what becomes of a request to each: the table, as data.

Every row is a host as a program names it, the answer a resolver would give, and three verdicts: with nothing granted,
with the host granted, and with the host granted and allowed to be private. A verdict is ``ALLOWED`` or the word of the
refusal. Each family of rows states its verdicts once; no verdict is computed from the code under test.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

ALLOWED: Final = "allowed"
PORT: Final = 443


class Granted(Enum):
    """What the operator granted."""

    NOTHING = 0
    HOST = 1
    PRIVATE_HOST = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One destination. ``entry`` is the grant; None where no entry could mean the host. ``answer`` is the resolver's."""

    family: str
    host: str
    verdicts: tuple[str, str, str]
    answer: tuple[str, ...] = ()
    entry: str | None = None
    port: int = PORT
    nat64: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            self.family,
            ascii(self.host if len(self.host) < 80 else f"{self.host[:20]}…{len(self.host)}"),
        ]
        return " ".join([*parts, *self.answer[:2], *self.nat64])


OPEN: Final = ("host_not_granted", ALLOWED, ALLOWED)
PRIVATE: Final = ("host_not_granted", "private_address", ALLOWED)
METADATA: Final = ("host_not_granted", "metadata_address", "metadata_address")
METADATA_LITERAL: Final = ("metadata_address", "metadata_address", "metadata_address")
NEVER_GRANTED: Final = ("host_not_granted", "host_not_granted", "host_not_granted")
NO_HOST: Final = ("host_invalid", "host_invalid", "host_invalid")
NO_PORT: Final = ("port_invalid", "port_invalid", "port_invalid")
MIXED: Final = ("host_not_granted", "mixed_addresses", "mixed_addresses")
LOCAL: Final = ("host_not_granted", "local_name", ALLOWED)
LOCAL_ELSEWHERE: Final = ("host_not_granted", "local_name", "local_name_elsewhere")
NONE: Final = ("host_not_granted", "no_addresses", "no_addresses")

# --- addresses --------------------------------------------------------------------------------------------------------

GLOBAL_IPV4: Final = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.215.14", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255",
    "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
    "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
    "168.63.129.15", "168.63.129.17",
]  # fmt: skip
"""The neighbours of every block that is set apart, and some hosts of the internet."""

PRIVATE_IPV4: Final = [
    "0.0.0.0", "0.0.0.1", "0.255.255.255", "10.0.0.0", "10.0.0.5", "10.255.255.255", "100.64.0.0", "100.100.100.199",
    "100.100.100.201", "100.127.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255", "172.16.0.0", "172.31.255.255",
    "192.0.0.0", "192.0.0.8", "192.0.0.255", "192.0.2.0", "192.0.2.255", "192.88.99.0", "192.88.99.255", "192.168.0.0",
    "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.0", "198.51.100.255", "203.0.113.0", "203.0.113.255",
    "224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.254", "255.255.255.255",
]  # fmt: skip
"""First and last of every block that is not global."""

METADATA_IPV4: Final = [
    "169.254.169.254", "169.254.0.0", "169.254.170.2", "169.254.255.255", "100.100.100.200", "168.63.129.16",
]  # fmt: skip

GLOBAL_IPV6: Final = [
    "2000::", "2001:1::1", "2001:1::2", "2001:1::3", "2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", "2001:4:112::",
    "2001:4:112:ffff:ffff:ffff:ffff:ffff", "2001:20::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::",
    "2001:4860:4860::8888", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::", "2001:ffff::", "2003::",
    "2606:4700:4700::1111", "2a00:1450::5", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::",
    "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]  # fmt: skip

PRIVATE_IPV6: Final = [
    "::", "::1", "::2", "::ffff:0:0:1", "64:ff9a::1", "64:ff9b:1::1", "64:ff9b:0:0:0:1::", "100::", "100:0:0:1::",
    "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::", "2001:1::", "2001:1::4", "2001:2::1", "2001:4:111::",
    "2001:4:113::", "2001:10::1", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff", "2001:40::", "2001:1ff::1", "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2002::", "2002:808:808::1", "3fff::",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "5f00::1", "fc00::", "fd00::1", "fd00:ec2:0:1::",
    "fd20:ce::253", "fd20:ce::255", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe80::1", "fe80::a9fe:a9fe",
    "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fec0::1", "ff00::", "ff02::1", "ff0e::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
]  # fmt: skip

METADATA_IPV6: Final = [
    "fd00:ec2::", "fd00:ec2::254", "fd00:ec2:0:0:ffff:ffff:ffff:ffff", "fd20:ce::254",
]  # fmt: skip


def _octets(ipv4: str) -> list[str]:
    return [f"{int(part):02x}" for part in ipv4.split(".")]


def mapped(ipv4: str) -> str:
    return f"::ffff:{ipv4}"


def compatible(ipv4: str) -> str:
    a, b, c, d = _octets(ipv4)
    return f"::{a}{b}:{c}{d}"


def six_to_four(ipv4: str) -> str:
    a, b, c, d = _octets(ipv4)
    return f"2002:{a}{b}:{c}{d}::1"


def well_known(ipv4: str) -> str:
    a, b, c, d = _octets(ipv4)
    return f"64:ff9b::{a}{b}:{c}{d}"


def teredo_client(ipv4: str) -> str:
    a, b, c, d = (f"{255 - int(part):02x}" for part in ipv4.split("."))
    return f"2001:0:808:808::{a}{b}:{c}{d}"


def teredo_server(ipv4: str) -> str:
    a, b, c, d = _octets(ipv4)
    return f"2001:0:{a}{b}:{c}{d}::f7f7:f7f7"


def translated(length: int, ipv4: str, u_octet: str = "00") -> str:
    """An address under the prefix of this length of :data:`OWN_PREFIXES`, as the figure of RFC 6052, section 2.2."""
    prefix = "260000646464646464646464"[: length // 4]
    a, b, c, d = _octets(ipv4)
    octets = {
        32: [a, b, c, d, u_octet],
        40: [a, b, c, u_octet, d],
        48: [a, b, u_octet, c, d],
        56: [a, u_octet, b, c, d],
        64: [u_octet, a, b, c, d],
        96: [a, b, c, d],
    }[length]
    digits = (prefix + "".join(octets)).ljust(32, "0")
    return ":".join(digits[place : place + 4] for place in range(0, 32, 4))


OWN_PREFIXES: Final = {
    32: "2600:64::/32",
    40: "2600:64:6400::/40",
    48: "2600:64:6464::/48",
    56: "2600:64:6464:6400::/56",
    64: "2600:64:6464:6464::/64",
    96: "2600:64:6464:6464:6464:6464::/96",
}


# --- families ---------------------------------------------------------------------------------------------------------


def _names(family: str, addresses: Iterable[str], verdicts: tuple[str, str, str]) -> list[Row]:
    """A name that turns out to have each address."""
    return [
        Row(f"{family} name", "host.example", verdicts, (address,), "host.example") for address in addresses
    ]


def _literals(family: str, addresses: Iterable[str], verdicts: tuple[str, str, str]) -> list[Row]:
    """Each address named as such, in brackets where a URL has them."""
    return [
        Row(
            f"{family} literal",
            f"[{address}]" if ":" in address else address,
            verdicts,
            (address,),
            address if "." in address else ipaddress.ip_address(address).compressed,
        )
        for address in addresses
    ]


def _both(
    family: str, addresses: list[str], names: tuple[str, str, str], literals: tuple[str, str, str]
) -> list[Row]:
    return [*_names(family, addresses, names), *_literals(family, addresses, literals)]


PLAIN: Final = [
    *_both("global IPv4", GLOBAL_IPV4, OPEN, OPEN),
    *_both("private IPv4", PRIVATE_IPV4, PRIVATE, PRIVATE),
    *_both("metadata IPv4", METADATA_IPV4, METADATA, METADATA_LITERAL),
    *_both("global IPv6", GLOBAL_IPV6, OPEN, OPEN),
    *_both("private IPv6", PRIVATE_IPV6, PRIVATE, PRIVATE),
    *_both("metadata IPv6", METADATA_IPV6, METADATA, METADATA_LITERAL),
]

_GLOBAL_SAMPLE: Final = ["8.8.8.8", "93.184.215.14"]
_PRIVATE_SAMPLE: Final = ["10.0.0.5", "127.0.0.1", "192.168.1.1", "198.51.100.7"]

EMBEDDED: Final = [
    *_both("mapped global", list(map(mapped, _GLOBAL_SAMPLE)), OPEN, OPEN),
    *_both("mapped private", list(map(mapped, _PRIVATE_SAMPLE)), PRIVATE, PRIVATE),
    *_both("mapped metadata", list(map(mapped, METADATA_IPV4)), METADATA, METADATA_LITERAL),
    *_both("NAT64 global", list(map(well_known, _GLOBAL_SAMPLE)), OPEN, OPEN),
    *_both("NAT64 private", list(map(well_known, _PRIVATE_SAMPLE)), PRIVATE, PRIVATE),
    *_both("NAT64 metadata", list(map(well_known, METADATA_IPV4)), METADATA, METADATA_LITERAL),
    # These forms are never global, whatever they carry.
    *_both("compatible", list(map(compatible, [*_GLOBAL_SAMPLE, *_PRIVATE_SAMPLE])), PRIVATE, PRIVATE),
    *_both("compatible metadata", list(map(compatible, METADATA_IPV4)), METADATA, METADATA_LITERAL),
    *_both("6to4", list(map(six_to_four, [*_GLOBAL_SAMPLE, *_PRIVATE_SAMPLE])), PRIVATE, PRIVATE),
    *_both("6to4 metadata", list(map(six_to_four, METADATA_IPV4)), METADATA, METADATA_LITERAL),
    *_both("Teredo", list(map(teredo_client, [*_GLOBAL_SAMPLE, *_PRIVATE_SAMPLE])), PRIVATE, PRIVATE),
    *_names("Teredo client metadata", map(teredo_client, METADATA_IPV4), METADATA),
    *_names("Teredo server metadata", map(teredo_server, METADATA_IPV4), METADATA),
]  # fmt: skip


def _translated() -> list[Row]:
    """Addresses under the network's own prefixes, declared and not declared, with the octet that is to be ignored."""
    rows: list[Row] = []
    for length, prefix in OWN_PREFIXES.items():
        for ipv4, verdicts in [
            *((ipv4, OPEN) for ipv4 in _GLOBAL_SAMPLE),
            *((ipv4, PRIVATE) for ipv4 in _PRIVATE_SAMPLE),
            *((ipv4, METADATA) for ipv4 in METADATA_IPV4[:3]),
        ]:
            for u_octet in ("00", "ff"):
                address = translated(length, ipv4, u_octet)
                declared = (prefix,)
                rows.append(
                    Row("own NAT64", "host.example", verdicts, (address,), "host.example", nat64=declared)
                )
                if length == 96:  # there the octet is a part of the prefix
                    break
        # Nothing is guessed: without the declaration this is an address like any other.
        undeclared = translated(length, "10.0.0.5")
        rows.append(Row("undeclared NAT64", "host.example", OPEN, (undeclared,), "host.example"))
        both = (OWN_PREFIXES[96], OWN_PREFIXES[32])
        rows.append(
            Row(
                "nested NAT64",
                "host.example",
                PRIVATE,
                (translated(96, "10.0.0.5"),),
                "host.example",
                nat64=both,
            )
        )
    rows.append(Row("local NAT64", "host.example", PRIVATE, ("64:ff9b:1::808:808",), "host.example"))
    rows.append(
        Row("local NAT64", "host.example", METADATA, ("64:ff9b:1::a9fe:a9fe",), "host.example",
            nat64=("64:ff9b:1::/96",))
    )  # fmt: skip
    return rows


_MIXED: Final = [
    ("1.1.1.1", "10.0.0.5"),
    ("10.0.0.5", "1.1.1.1"),
    ("2606:4700::1", "fd00::1"),
    ("1.1.1.1", "::1"),
    ("1.1.1.1", "::ffff:127.0.0.1"),
    ("1.1.1.1", "64:ff9b::a00:5"),
    ("8.8.8.8", "8.8.4.4", "192.168.0.1"),
    ("0.0.0.0", "8.8.8.8"),
]
_MIXED_METADATA: Final = [
    ("1.1.1.1", "169.254.169.254"),
    ("169.254.169.254", "10.0.0.5"),
    ("10.0.0.5", "fd00:ec2::254"),
    ("1.1.1.1", "10.0.0.5", "100.100.100.200"),
    ("::1", "::ffff:169.254.169.254"),
]

SETS: Final = [
    *(Row("mixed set", "host.example", MIXED, answer, "host.example") for answer in _MIXED),
    *(
        Row("set with metadata", "host.example", METADATA, answer, "host.example")
        for answer in _MIXED_METADATA
    ),
    Row("global set", "host.example", OPEN, ("2606:4700::1", "1.1.1.1", "2606:4700::2"), "host.example"),
    Row("private set", "host.example", PRIVATE, ("10.0.0.5", "fd00::1", "10.0.0.5"), "host.example"),
    Row("empty set", "host.example", NONE, (), "host.example"),
]

# --- hosts as texts ---------------------------------------------------------------------------------------------------

_IPV4_FORMS: Final = [
    # 127.0.0.1 and 169.254.169.254 in every form that some parser reads: decimal, octal, hexadecimal, short, mixed.
    "2130706433", "017700000001", "0x7f000001", "0x7F000001", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f.1",
    "127.0.0.0x1", "127.00.0.1", "0127.0.0.1", "127.0.0.01", "0177.0.0.0x1", "127.65535", "127.0.65535", "0", "0x",
    "00", "0x0", "1", "4294967295", "4294967296", "127.0.0.256", "256.0.0.1", "1.2.3.4.5", "127.0.0.1.1",
    "2852039166", "025177524776", "0xa9fea9fe", "0xA9FEA9FE", "169.16689662", "169.254.43518", "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe", "169.254.169.0376", "169.254.0xa9fe", "169.254.169.254.7", "a.example.7", "a.0x7f",
    "-1", "+1", "1.2.3", "127.0.0.-1", "127..1", ".127.0.0.1", "127.0.0.1..", "1e3", "0b1.0.0.1",
]  # fmt: skip
_NOT_A_NUMBER: Final = {"1e3"}

_IPV6_FORMS: Final = [
    "[fe80::1%eth0]", "[fe80::1%25eth0]", "fe80::1%1", "[::1%lo]", "[::1", "::1]", "[[::1]]", "[::1].", "[::1]:443",
    "[]", "[127.0.0.1]", "[host.example]", "[v1.fe80]", ":::", "::1::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::",
    "::g", "::ffff:127.0.0.256", "::ffff:127.1", "::ffff:0177.0.0.1", "::ffff:127.0.0.01", "::127.0.0.1.1", ":", "::1/64",
    "::1 ", " ::1", "[::1]x", "x[::1]", "0x::1",
]  # fmt: skip

_FORBIDDEN: Final = [
    "", ".", "..", " ", "a b.example", " host.example", "host.example ", "host.example\n", "\thost.example",
    "host.example\0", "host\0.example", "\0", "a.example\0.host.example", "host.example\r\nX: y", "host.example\x7f",
    "host.example\x85", "host.example/", "host.example/path", "/host.example", "//host.example", "https://host.example",
    "host.example?q", "host.example#f", "host.example\\", "\\\\host.example", "user@host.example", "user:pw@host.example",
    "@host.example", "host.example@evil.example", "host.example:443", "host.example:", "127.0.0.1:443", ":443",
    "host.example:80:80", "*", "*.", "*.example", "*.host.example", "h*st.example", "host.*", "host..example",
    ".host.example", "host.example..", "-host.example", "host-.example", "a.-.example", "_sip.host.example",
    "ho_st.example", "host.example,evil.example", "host.example;evil", "host%2eexample", "%68ost.example", "host%00",
    "$(id).example", "`id`.example", "'host'.example", '"host".example', "{host}.example", "host|x.example", "host&x",
    "host=x.example", "host+x.example", "host~x.example", "(host).example", "<host>", "host^x",
]  # fmt: skip

_NOT_ASCII: Final = [
    "bücher.example", "ｈost.example", "host｡example", "host．example", "host。example", "hοst.example", "һost.example",
    "①②⑦.0.0.1", "１２７.0.0.1", "127。0。0。1", "ℋost.example", "K.example", "\u212a.example", "host\u200b.example",
    "host\u00ad.example", "\u202ehost.example", "ho\u0301st.example", "straße.example", "ⓗost.example", "𝐡ost.example",
    "\ud800.example", "localhos\u0165", "[::\uff11]", "١٢٧.0.0.1", "host\u3000.example", "host\u2024example",
]  # fmt: skip

_LABEL_63: Final = "a" * 63
_NAME_253: Final = ".".join([_LABEL_63, _LABEL_63, _LABEL_63, "a" * 61])
_TOO_LONG: Final = [
    "a" * 64, f"{'a' * 64}.example", f"host.{'a' * 64}", f"{_NAME_253}a", f"a{_NAME_253}", f"{_NAME_253}a.",
    f"{_NAME_253}..", f"{'a.' * 127}aa", "a" * 254, "a" * 65_536, "1" * 300, f"[{'0' * 300}::1]", "." * 300,
]  # fmt: skip

TEXTS: Final = [
    *(
        Row("IPv4 in another form", text, NO_HOST if text not in _NOT_A_NUMBER else OPEN, ("1.1.1.1",),
            None if text not in _NOT_A_NUMBER else text)
        for text in _IPV4_FORMS
    ),
    *(Row("IPv6 that is none", text, NO_HOST) for text in _IPV6_FORMS),
    *(Row("no host", text, NO_HOST, ("1.1.1.1",)) for text in _FORBIDDEN),
    *(Row("not ASCII", text, NO_HOST, ("1.1.1.1",)) for text in _NOT_ASCII if not text.isascii()),
    *(Row("too long", text, NO_HOST, ("1.1.1.1",)) for text in _TOO_LONG),
]  # fmt: skip

SPELLINGS: Final = [
    *(
        Row("same host", text, OPEN, ("1.1.1.1",), "host.example")
        for text in ("host.example", "HOST.EXAMPLE", "Host.Example", "host.example.", "HOST.example.")
    ),
    *(
        Row("same address", text, OPEN, ("2606:4700::1",), "2606:4700::1")
        for text in ("[2606:4700::1]", "2606:4700::1", "[2606:4700:0:0:0:0:0:1]", "[2606:4700:0000::0001]",
                     "2606:4700:0:0::1", "2606:4700::0.0.0.1")
    ),
    *(
        Row("same loopback", text, PRIVATE, ("::1",), "::1")
        for text in ("[::1]", "::1", "0:0:0:0:0:0:0:1", "[0000:0000:0000:0000:0000:0000:0000:0001]", "::0.0.0.1")
    ),
    *(
        Row("same mapped address", text, PRIVATE, ("::ffff:10.0.0.5",), "::ffff:10.0.0.5")
        for text in ("[::ffff:10.0.0.5]", "::ffff:a00:5", "::FFFF:A00:5", "0:0:0:0:0:ffff:10.0.0.5", "::ffff:0a00:0005")
    ),
    *(
        Row("same metadata address", text, METADATA_LITERAL, ("::ffff:169.254.169.254",), "::ffff:169.254.169.254")
        for text in ("::ffff:a9fe:a9fe", "[::FFFF:A9FE:A9FE]", "0:0:0:0:0:ffff:a9fe:a9fe")
    ),
    Row("same address", "1.1.1.1.", OPEN, ("1.1.1.1",), "1.1.1.1"),
    Row("same metadata address", "169.254.169.254.", METADATA_LITERAL, ("169.254.169.254",), "169.254.169.254"),
    Row("longest name", _NAME_253, OPEN, ("1.1.1.1",), _NAME_253),
    Row("longest name", f"{_NAME_253}.", OPEN, ("1.1.1.1",), _NAME_253),
    Row("longest label", f"{_LABEL_63}.example", OPEN, ("1.1.1.1",), f"{_LABEL_63}.example"),
    Row("one label", "intranet", OPEN, ("1.1.1.1",), "intranet"),
    Row("international name", "xn--bcher-kva.example", OPEN, ("1.1.1.1",), "xn--bcher-kva.example"),
    Row("international name", "XN--BCHER-KVA.example", OPEN, ("1.1.1.1",), "xn--bcher-kva.example"),
]  # fmt: skip

_OTHERS: Final = [
    # (grant, host)
    ("host.example", "evil.example"), ("host.example", "host.example.evil.example"), ("host.example", "ahost.example"),
    ("host.example", "a.host.example"), ("host.example", "example"), ("host.example", "h0st.example"),
    ("host.example", "xn--hst-5cd.example"), ("host.example", "xn--ost-8cd.example"), ("host.example", "host-example"),
    ("host.example", "hostexample"), ("host.example", "host.example-"[:-1] + "s"), ("*.host.example", "host.example"),
    ("*.host.example", "HOST.EXAMPLE."), ("*.host.example", "evilhost.example"), ("*.host.example", "a.host.example.evil"),
    ("*.host.example", "a.hostXexample"), ("*.b.host.example", "a.host.example"), ("10.0.0.5", "10.0.0.50"),
    ("10.0.0.5", "[::ffff:10.0.0.5]"), ("::ffff:10.0.0.5", "10.0.0.5"), ("10.0.0.5", "[::a00:5]"),
    ("10.0.0.5", "[64:ff9b::a00:5]"), ("1.1.1.1", "[2606:4700::1]"), ("2606:4700::1", "[2606:4700::11]"),
    ("localhost", "127.0.0.1"), ("127.0.0.1", "localhost"), ("localhost", "localhost.example"), ("a.local", "b.local"),
]  # fmt: skip

RULES: Final = [
    *(Row("another host", host, NEVER_GRANTED, ("1.1.1.1",), entry) for entry, host in _OTHERS),
    *(
        Row("below a wildcard", host, OPEN, ("1.1.1.1",), "*.host.example")
        for host in ("a.host.example", "b.a.host.example", "A.HOST.EXAMPLE.", "xn--bcher-kva.host.example")
    ),
    *(
        Row("private below a wildcard", host, PRIVATE, ("10.0.0.5",), "*.host.example")
        for host in ("a.host.example", "b.a.host.example")
    ),
    *(
        Row("local name", host, LOCAL, ("127.0.0.1", "::1"), host.lower().removesuffix("."))
        for host in ("localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "local", "a.b.local", "A.Local.")
    ),
    *(
        Row("local name elsewhere", host, LOCAL_ELSEWHERE, ("1.1.1.1",), host)
        for host in ("localhost", "a.localhost", "printer.local")
    ),
    *(
        Row("nearly local name", host, OPEN, ("1.1.1.1",), host)
        for host in ("localhost.example", "local.example", "notlocalhost", "notlocal", "localhosts", "host.locale")
    ),
    *(Row("port", "host.example", OPEN, ("1.1.1.1",), "host.example", port) for port in (1, 22, 80, 8443, 65_535)),
    *(Row("port", "host.example", NO_PORT, ("1.1.1.1",), "host.example", port) for port in (0, -1, 65_536, 2**32 + 443)),
]  # fmt: skip

TABLE: Final[tuple[Row, ...]] = (*PLAIN, *EMBEDDED, *_translated(), *SETS, *TEXTS, *SPELLINGS, *RULES)
"""All of it."""
