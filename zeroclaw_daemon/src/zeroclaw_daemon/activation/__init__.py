"""Which plugin instances run, and what is known of those that do not."""
