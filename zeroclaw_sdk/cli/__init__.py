"""The author's and the maintainer's commands. They print; what they print is decided elsewhere."""
