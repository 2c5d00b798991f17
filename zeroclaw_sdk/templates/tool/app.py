"""{{name}}: a tool that runs inside the sandbox."""

from zeroclaw_sdk.guest import Tool, log


class {{class_name}}(Tool):
    """Greets somebody by name."""

    name = "{{function_name}}"

    def run(self, name: str, excited: bool = False) -> str:
        """Greet somebody. The model sees these parameters and what is said about them here.

        Args:
            name: Who is greeted.
            excited: Whether to raise the voice.
        """
        log.info("greeting somebody", action=log.Action.INVOKE)
        return f"Hello, {name}{'!' if excited else '.'}"
