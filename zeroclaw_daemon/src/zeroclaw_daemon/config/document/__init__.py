"""A TOML text as a document that people write and programs change: where things stand in it, and edits that keep the rest.

Nothing here knows what the configuration means.
"""
