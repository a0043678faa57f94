"""A clock that tests set by hand."""


class ManualClock:
    """A clock that advances only when a test says so; its wall time can be set back."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall = wall_ms
        self.running = 0
        self.slept: list[float] = []

    def wall_ms(self) -> int:
        return self.wall

    def running_ms(self) -> int:
        return self.running

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_seconds(seconds)

    def pass_seconds(self, seconds: float) -> None:
        self.wall += round(seconds * 1000)
        self.running += round(seconds * 1000)

    def set_back(self, seconds: float) -> None:
        self.wall -= round(seconds * 1000)
