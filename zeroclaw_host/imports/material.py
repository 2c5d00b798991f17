"""The certificates of a TLS profile, from the configuration of the frame that connects (PLG-361).

They go from there to the network authority. No guest gets them: ``secrets`` refuses every property that a profile names.
"""

from __future__ import annotations

from zeroclaw_host.egress.failures import TlsConfigurationFailed
from zeroclaw_host.egress.profiles import TlsProfile
from zeroclaw_host.egress.tls import MaterialSource, TlsMaterial
from zeroclaw_host.errors import ConfigInvalid
from zeroclaw_host.sandbox.frame import CallFrame


def material_of(frame: CallFrame) -> MaterialSource:
    """Reads profiles' texts from the frame's configuration: one revision in a frame, the newest one in the next (PLG-361).

    May be called on another thread while the guest waits. Raises
    :class:`~zeroclaw_host.egress.failures.TlsConfigurationFailed` where the configuration does not resolve, or a secret is
    not set.
    """

    def read(profile: TlsProfile) -> TlsMaterial:
        try:
            secrets = frame.config().secrets
        except ConfigInvalid as error:
            raise TlsConfigurationFailed(
                f"the secrets of the TLS profile {profile.name} cannot be read: the configuration is not valid"
            ) from error
        return TlsMaterial.of(profile, secrets)

    return read
