"""Write ``signatures.json``: signed manifests, made without any code of this project.

Every case is a manifest with the place of each key marked (``@KEY@`` and ``@SIGNATURE@``), and the canonical bytes as somebody wrote them down by hand from
the rules. OpenSSL's command signs those bytes. Run it with ``python tests/package/vectors/make.py``; the keys are made anew.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from pathlib import Path

PLAIN = 'name = "x"\nversion = "1.0.0"\ncapabilities = ["skill"]\n'
PLAIN_SIGNED = 'name = "x"\nversion = "1.0.0"\ncapabilities = ["skill"]'

CASES: dict[str, tuple[str, str]] = {
    "keys at the end": (PLAIN + "@KEY@\n@SIGNATURE@\n", PLAIN_SIGNED),
    "keys at the start": ("@SIGNATURE@\n@KEY@\n" + PLAIN, PLAIN_SIGNED),
    "keys apart from each other": (
        '@KEY@\nname = "x"\n@SIGNATURE@\nversion = "1.0.0"\ncapabilities = ["skill"]\n',
        PLAIN_SIGNED,
    ),
    "comments and blank lines above a key go with it": (
        PLAIN + "\n# who made it\n\n@KEY@\n# and signed it\n@SIGNATURE@\n",
        PLAIN_SIGNED,
    ),
    "a comment behind a key goes with it": (
        "@KEY@ # mine\n" + PLAIN + "@SIGNATURE@ # really\n",
        PLAIN_SIGNED,
    ),
    "other comments stay": (
        '# a package\nname = "x" # short\n@KEY@\nversion = "1.0.0"\n# what it is\ncapabilities = ["skill"]\n@SIGNATURE@\n',
        '# a package\nname = "x" # short\nversion = "1.0.0"\n# what it is\ncapabilities = ["skill"]',
    ),
    "lines that end as on Windows": (
        PLAIN.replace("\n", "\r\n") + "@KEY@\r\n@SIGNATURE@\r\n",
        PLAIN_SIGNED,
    ),
    "blank lines at the end do not count": (PLAIN + "@KEY@\n@SIGNATURE@\n\n\n \n", PLAIN_SIGNED),
    "no line break at the end": (PLAIN + "@KEY@\n@SIGNATURE@", PLAIN_SIGNED),
    "keys of those names elsewhere stay": (
        PLAIN
        + '@KEY@\n@SIGNATURE@\n[egress]\nhosts = []\n[other]\nsignature = "mine"\npublisher_key = "mine"\n',
        PLAIN_SIGNED + '\n[egress]\nhosts = []\n[other]\nsignature = "mine"\npublisher_key = "mine"',
    ),
    "spacing and letters of every language stay": (
        'name   =   "x"\nversion="1.0.0"\ncapabilities = [ "skill" ]\ndescription = "日本語 – ü"\n@KEY@\n@SIGNATURE@\n',
        'name   =   "x"\nversion="1.0.0"\ncapabilities = [ "skill" ]\ndescription = "日本語 – ü"',
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        key, message = Path(folder, "key.pem"), Path(folder, "message")
        openssl("genpkey", "-algorithm", "ed25519", "-out", str(key))
        public = openssl("pkey", "-in", str(key), "-pubout", "-outform", "DER")[-32:].hex()
        vectors: list[dict[str, str]] = []
        for name, (marked, canonical) in CASES.items():
            message.write_bytes(canonical.encode())
            raw = openssl("pkeyutl", "-sign", "-rawin", "-inkey", str(key), "-in", str(message))
            signature = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
            manifest = marked.replace("@SIGNATURE@", f'signature = "{signature}"')
            manifest = manifest.replace("@KEY@", f'publisher_key = "{public}"')
            vectors.append(
                {"name": name, "manifest": manifest, "canonical": canonical, "publisher_key": public}
            )
    target = Path(__file__).with_name("signatures.json")
    target.write_text(json.dumps(vectors, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def openssl(*arguments: str) -> bytes:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


if __name__ == "__main__":
    main()
