"""What can go wrong on an author's or a registry maintainer's machine."""

from __future__ import annotations

from zeroclaw_host.errors import Kind, ZeroclawError


class ProjectInvalid(ZeroclawError):
    """A directory is no plugin project this SDK can work on."""

    code = "plugin_project_invalid"
    kind = Kind.INVALID


class PackageNameInvalid(ZeroclawError):
    """A new plugin cannot have this name. ``details`` holds ``name``."""

    code = "package_name_invalid"
    kind = Kind.INVALID


class ScaffoldConflict(ZeroclawError):
    """A new plugin would replace files that exist."""

    code = "plugin_project_exists"
    kind = Kind.CONFLICT


class ExtraMissing(ZeroclawError):
    """A command needs a distribution extra that is not installed. ``details`` holds ``extra`` and ``module``."""

    code = "extra_missing"
    kind = Kind.USAGE


class BuildFailed(ZeroclawError):
    """A component was not built. ``details`` holds ``findings``, or ``output`` and ``status`` of the builder."""

    code = "build_failed"
    kind = Kind.INVALID


class KeyFileError(ZeroclawError):
    """A key file cannot be read as a key, or must not be written. ``details`` holds ``path``."""

    code = "key_file_invalid"
    kind = Kind.INVALID


class KeyFileExists(KeyFileError):
    """A new key would replace a file."""

    code = "key_file_exists"
    kind = Kind.CONFLICT


class PassphraseRefused(KeyFileError):
    """A key is protected and the passphrase is missing or wrong."""

    code = "passphrase_refused"
    kind = Kind.REFUSED


class PublishRefused(ZeroclawError):
    """A package was not added to a registry."""

    code = "publish_refused"
    kind = Kind.CONFLICT
