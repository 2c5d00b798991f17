"""The network of plugins as a daemon has it: connections as the configuration grants them, what is told of them, what they used."""
