"""Files that were sent to a session: what they are, where they lie, and which of them a session knows."""
