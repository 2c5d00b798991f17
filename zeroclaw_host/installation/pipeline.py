"""The one path by which a package becomes acceptable to run.

Install, update and the development loop all call :func:`prepare`; discovery calls the admission it begins with. There is
no second way in, so a check that holds on one path holds on all of them.
"""

from __future__ import annotations

from collections.abc import Callable

from zeroclaw_host.errors import ComponentMismatch
from zeroclaw_host.package.admission import AdmittedPackage, admit
from zeroclaw_host.package.reader import PackageReader
from zeroclaw_host.package.signature import SignaturePolicy
from zeroclaw_host.worlds.loading import LoadVerdict

LoadCheck = Callable[[AdmittedPackage], LoadVerdict]
"""Compiles the component and instantiates it once against this host's contract."""


def prepare(
    reader: PackageReader,
    policy: SignaturePolicy,
    load_check: LoadCheck | None,
    *,
    before_compiling: Callable[[AdmittedPackage], None] | None = None,
) -> AdmittedPackage:
    """Read a package once, and check those bytes in full.

    :param load_check: left out, the component is neither compiled nor instantiated (PLG-039); everything else holds.
    :param before_compiling: a command's own questions, asked of an admitted package before work is spent on it.
    :raises PackageError: admission refused it.
    :raises ZeroclawError: ``before_compiling`` refused it, or the component does not load (PLG-038).
    """
    package = admit(reader, policy)
    if before_compiling is not None:
        before_compiling(package)
    if load_check is not None:
        require_loading(load_check(package))
    return package


def require_loading(verdict: LoadVerdict) -> None:
    """Turn the verdict of a component that does not load into its error. A skill bundle has nothing to load (PLG-045).

    :raises ZeroclawError: it does not load; the causes are in the error's chain.
    """
    if not verdict.applicable or verdict.loads:
        return
    raise verdict.error or ComponentMismatch("; ".join(verdict.causes) or "the component does not load")
