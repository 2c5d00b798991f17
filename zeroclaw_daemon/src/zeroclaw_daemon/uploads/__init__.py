"""Files on their way to a session: staged piece by piece for one connection, then placed in one step."""
