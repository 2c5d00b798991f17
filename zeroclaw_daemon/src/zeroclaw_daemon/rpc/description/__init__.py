"""The protocol, described from what serves it: every method of the table, its parameters and results as JSON Schema, its errors.

``document`` is the whole as OpenRPC; below it ``failures`` (which errors a method answers with), ``examples``, ``schemas`` (models as
JSON Schema in the spelling of the wire) and ``words`` (what the code says of itself, as plain text).
"""
