"""Where guests run: one engine, compiled components, bounded stores, and the gate between guest and host.

Nothing here knows any one interface. Import rooms describe theirs (:mod:`~zeroclaw_host.sandbox.interface`), worlds say
which of them a kind of plugin gets (:class:`~zeroclaw_host.sandbox.linker.Surface`), and a
:class:`~zeroclaw_host.sandbox.sandbox.Sandbox` compares, links and runs.
"""
