"""One module for each interface a guest can import: thin adapters from the gate to a service. They ask, never decide."""
