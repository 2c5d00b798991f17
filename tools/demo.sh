#!/bin/sh
# The whole road of a plugin on this machine, from a key to a masked answer and two refusals.
#
# Everything happens in a fresh temporary HOME. What takes long is kept in .cache/demo: the component, which is built again
# when its source changed, and its compiled form, which belongs to exactly those bytes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/zeroclaw-demo.XXXXXX")
export HOME="$work/home"
mkdir -p "$HOME" "$root/.cache/demo"
export ZEROCLAW_CACHE_DIR="$root/.cache/demo/compiled"
unset ZEROCLAW_SOCKET ZEROCLAW_CONFIG_DIR ZEROCLAW_DATA_DIR ZEROCLAW_PLUGIN_REGISTRY_URL || true

server=
daemon=
finish() {
    status=$?
    for pid in $daemon $server; do kill "$pid" 2>/dev/null || true; done
    for pid in $daemon $server; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
    [ "$status" -eq 0 ] || printf '\nThe demo failed with status %s.\n' "$status" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

started=$(date +%s)
stage() { printf '\n\033[1m[%ss] %s\033[0m\n' "$(($(date +%s) - started))" "$*"; }

# A command as it could be typed.
typed() {
    printf '$'
    for word; do
        case $word in
            *[!A-Za-z0-9_./:=@-]* | '') printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}
show() { typed "$@"; "$@"; }

# Run a command that must be refused: its output is printed, and success would be a failure of this demo.
refused() {
    typed "$@"
    if "$@" >"$work/refusal" 2>&1; then
        cat "$work/refusal"
        echo "this should have been refused" >&2
        exit 1
    fi
    cat "$work/refusal"
}

# Wait, at most ten seconds, until a command succeeds.
until_ready() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "not ready: $*" >&2; exit 1; }
        sleep 0.1
    done
}

stage "1. A publisher makes a signing key"
show zeroclaw-plugin keygen "$work/publisher.pem"
key=$(zeroclaw-plugin keygen --show "$work/publisher.pem")
echo "public key: $key"

stage "2. An author builds the plugin 'redact' from Python source"
kept="$root/.cache/demo/source/redact"
mkdir -p "$kept"
find "$kept" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
cp -R "$root/example-plugins/redact/." "$kept"
show zeroclaw-plugin build "$kept"
cp -R "$kept" "$work/redact"

stage "3. It is signed, checked and packed"
show zeroclaw-plugin sign "$work/redact" --key "$work/publisher.pem"
show zeroclaw-plugin verify "$work/redact" --trusted-key "$key"
show zeroclaw-plugin check "$work/redact"
show zeroclaw-plugin pack "$work/redact" --output "$work/redact.zip"

stage "4. A maintainer publishes it in a registry and serves it over HTTP"
show zeroclaw-registry init "$work/registry"
show zeroclaw-registry add "$work/registry" "$work/redact.zip"
show zeroclaw-registry verify "$work/registry"
zeroclaw-registry serve "$work/registry" --port 0 --url-file "$work/registry.url" >"$work/registry.log" 2>&1 &
server=$!
until_ready test -s "$work/registry.url"
registry=$(cat "$work/registry.url")
echo "serving $registry"

stage "5. An operator trusts that key, and nothing else"
show zeroclaw config set plugins.enabled true
show zeroclaw config set plugins.auto_discover true
show zeroclaw config set plugins.security.signature_mode strict
show zeroclaw config set plugins.security.trusted_publisher_keys "$key"
show zeroclaw config set plugins.registry_url "$registry"

stage "6. The plugin is installed from the registry"
show zeroclaw plugin search redact
show zeroclaw plugin install redact
show zeroclaw plugin list --verify

stage "7. The daemon starts"
zeroclaw daemon >"$work/daemon.out" 2>&1 &
daemon=$!
until_ready zeroclaw status
show zeroclaw status

stage "8. A prompt whose answer comes from the plugin, streamed over the socket"
show zeroclaw prompt '/tool redact {"text": "Write to ada@example.org, the key is sk-abcdefghijklmnopqrstuvwx."}' | tee "$work/answer"
if grep -q -e 'ada@example.org.*\[redacted\]' "$work/answer" || ! grep -q '\[redacted\]' "$work/answer"; then
    echo "the answer was not masked" >&2
    exit 1
fi

stage "9. A tampered archive is refused"
mkdir "$work/tampered"
cp -R "$work/registry/." "$work/tampered"
python3 - "$work/tampered" <<'PYTHON'
import pathlib, sys

[archive] = pathlib.Path(sys.argv[1]).rglob("*.zip")
raw = bytearray(archive.read_bytes())
raw[len(raw) // 2] ^= 1
archive.write_bytes(raw)
print(f"one bit of {archive.name} flipped")
PYTHON
show zeroclaw plugin remove redact
refused zeroclaw plugin install redact --registry "$work/tampered"

stage "10. An unsigned package is refused"
cp -R "$root/example-plugins/redact" "$work/unsigned"
mkdir -p "$work/unsigned/build"
cp "$work/redact/build/"*.wasm "$work/unsigned/build/"
refused zeroclaw plugin install "$work/unsigned"

stage "11. The daemon ends"
kill "$daemon"
wait "$daemon"
echo "the daemon ended with status 0"
daemon=
[ ! -e "$HOME/.zeroclaw/data/daemon.sock" ]

stage "done"
