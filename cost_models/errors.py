"""The one exception of bad input: it names the field, the value, what is allowed and what to do."""


class ConfigError(ValueError):
    """A value that cannot be used. ``str`` is one line: field, value, allowed set, remedy."""

    def __init__(self, field: str, value: object, allowed: str, remedy: str = "") -> None:
        self.field, self.value, self.allowed, self.remedy = field, value, allowed, remedy
        shown = repr(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(f"{field} = {shown}: must be {allowed}" + (f"; {remedy}" if remedy else ""))
