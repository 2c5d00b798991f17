"""Built plugins in the real sandbox: what an author's code does, and what its author is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from zeroclaw_host.errors import ConfigInvalid, GuestFailure, UsageError
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import DirectoryReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.sandbox.sandbox import Sandbox
from zeroclaw_sdk.guest_python import MISSING_MODULES, PRESENT_MODULES
from zeroclaw_sdk.run import RunReport, run

Try = Callable[..., RunReport]


@pytest.fixture(scope="session")
def behaves(built_plugin: Callable[[str], Path]) -> AdmittedPackage:
    return admit(DirectoryReader(built_plugin("behaves")), SignaturePolicy())


@pytest.fixture
def attempt(behaves: AdmittedPackage, sandbox: Sandbox) -> Try:
    """Call the plugin once."""

    def call(how: str, config: Mapping[str, str] | None = None, **more: object) -> RunReport:
        return run(behaves, {"how": how} | more, sandbox, config={"region": "eu"} | dict(config or {}))

    return call


def output(report: RunReport) -> str:
    assert report.error is None, report.error
    assert report.result is not None
    assert report.result.success, report.result.error
    return report.result.output


def test_configuration_is_typed_and_shows_no_secret(attempt: Try):
    seen = json.loads(output(attempt("config", {"retries": "5", "api_key": "hunter2"})))
    assert seen == {"region": "eu", "retries": 5, "shown": "Config(region='eu', retries=5, api_key=Secret())"}


def test_secrets_are_asked_for_by_name(attempt: Try):
    assert output(attempt("secret", {"api_key": "hunter2"})) == "hunter2"
    assert output(attempt("secrets", {"api_key": "hunter2"}, detail="api_key")) == "hunter2"


@pytest.mark.parametrize("name", ["region", "nothing", "", "\ud800"])
def test_what_is_no_secret_is_an_error_the_author_reads(attempt: Try, name: str):
    report = attempt("secrets", detail=name.encode("utf-8", "replace").decode())
    assert isinstance(report.error, GuestFailure)
    assert "SecretError" in str(report.error)
    assert "not-found" in str(report.error)


def test_configuration_that_breaks_the_schema_is_refused_before_the_guest(attempt: Try):
    with pytest.raises(ConfigInvalid):
        attempt("config", {"region": "mars"})
    with pytest.raises(ConfigInvalid):
        attempt("config", {"retries": "-1"})
    with pytest.raises(ConfigInvalid):
        attempt("config", {"unknown": "1"})


@pytest.mark.req("PAINS-15")
def test_an_exception_reaches_the_author_with_type_message_and_lines(attempt: Try):
    report = attempt("raise", detail="zzz")
    assert isinstance(report.error, GuestFailure)
    text = report.error.message
    assert "LookupError: no zzz" in text
    assert "app.py:" in text
    assert "in run: fail(detail)" in text
    assert 'in fail: raise LookupError(f"no {text}") from error' in text
    assert "caused by ValueError: invalid literal for int() with base 10: 'zzz'" in text
    assert "zeroclaw_sdk" not in text
    [record] = [each for each in report.logs if each.source == "log"]
    assert (record.level, record.action, record.outcome, record.function) == (
        "error",
        "fail",
        "failure",
        "Behaves.run",
    )


@pytest.mark.req("PAINS-15")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("foreign error", "Err"),
        ("lazy", "ModuleNotFoundError: No module named 'csv'"),
        ("surrogate error", "ValueError: half ?"),
        ("recurse", "RecursionError"),
        ("memory", "MemoryError"),
    ],
)
def test_nothing_an_author_does_aborts_the_guest_without_a_word(attempt: Try, how: str, said: str):
    report = attempt(how)
    assert isinstance(report.error, GuestFailure), report.error
    assert said in report.error.message
    assert "app.py:" in report.error.message


def test_the_work_of_a_call_is_counted_however_it_ends(attempt: Try):
    counts = [attempt(how).fuel for how in ("x", "refuse", "raise")]
    assert all(count is not None and 0 < count < 1_000_000_000 for count in counts)


def test_an_expected_failure_is_a_result(attempt: Try):
    report = attempt("refuse")
    assert report.error is None
    assert report.result is not None
    assert (report.result.success, report.result.error) == (False, "no such thing")


@pytest.mark.parametrize("arguments", [{}, {"how": 1}, {"how": "x", "what": 1}])
def test_wrong_arguments_are_a_result_that_says_what_is_wrong(
    behaves: AdmittedPackage, sandbox: Sandbox, arguments: Mapping[str, object]
):
    report = run(behaves, arguments, sandbox, config={"region": "eu"})
    assert report.result is not None
    assert not report.result.success
    assert report.result.error in (
        "how: missing",
        "how: expected a string, got an integer",
        "what: unknown",
    )


def test_half_characters_become_question_marks(attempt: Try):
    report = attempt("surrogate")
    assert output(report) == "half ?"
    [record] = report.logs
    assert (record.message, record.function) == ("half ?", "?")


def test_a_number_out_of_range_is_cut(attempt: Try):
    [record] = attempt("long time").logs
    assert record.duration_ms == 2**64 - 1


def test_a_log_record_arrives_whole(attempt: Try):
    [record] = attempt("log").logs
    assert (record.level, record.message, record.function) == ("warn", "careful", "Behaves.run")
    assert (record.action, record.outcome, record.duration_ms, record.raw) == (
        "list-action",
        "failure",
        7,
        '{"n": 1}',
    )
    assert record.call_site.attributes == {"caller": "zeroclaw-plugin run"}


def test_what_is_printed_is_kept(attempt: Try):
    told = {(record.source, record.message.strip()) for record in attempt("print").logs}
    assert told == {("stdout", "to stdout"), ("stderr", "to stderr")}


@pytest.mark.req("PAINS-8")
def test_chance_is_not_baked_in(attempt: Try):
    assert output(attempt("random")) != output(attempt("random"))


def test_every_plugin_has_the_modules_that_lazy_imports_are_judged_by(attempt: Try):
    present = set(json.loads(output(attempt("modules"))))
    assert present >= PRESENT_MODULES
    assert not present & MISSING_MODULES


def test_a_package_without_configuration_refuses_values(
    built_plugin: Callable[[str], Path], sandbox: Sandbox
):
    package = admit(DirectoryReader(built_plugin("hello")), SignaturePolicy())
    with pytest.raises(UsageError, match="declares no configuration"):
        run(package, {"name": "Ada"}, sandbox, config={"a": "b"})


@pytest.mark.parametrize(
    ("text", "config", "expected"),
    [
        ("ada@example.org", {}, "[redacted]"),
        ("ada@example.org x", {"replacement": "*", "patterns": '["x"]'}, "* *"),
        ("ada@example.org sk-abcdefgh1234", {"redact_emails": "false"}, "ada@example.org [redacted]"),
    ],
)
def test_redact_masks_in_the_sandbox_as_configured(
    built_plugin: Callable[[str], Path], sandbox: Sandbox, text: str, config: Mapping[str, str], expected: str
):
    package = admit(DirectoryReader(built_plugin("redact")), SignaturePolicy())
    report = run(package, {"text": text}, sandbox, config=config)
    assert output(report) == expected
    [record] = report.logs
    assert record.action == "complete"
