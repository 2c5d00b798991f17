"""A second file of the author's."""


def fail(text: str) -> None:
    try:
        int(text)
    except ValueError as error:
        raise LookupError(f"no {text}") from error
