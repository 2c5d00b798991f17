"""From a component's bytes to machine code that can be loaded: read, rewritten, compiled in a child, kept.

Nothing here runs a guest. ``cache`` is where the sandbox enters; ``compile`` is the parent's side of the compiling child and
``compiler`` the child's; ``artifacts`` and ``shelf`` keep what it made; ``sharing`` and what it stands on take the core
modules out that Python plugins have in common.
"""
