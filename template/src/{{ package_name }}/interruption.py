"""SIGTERM and Ctrl-C: a run ends with the step that it is taking, not in the middle of it."""

import os
import signal
import threading
from types import FrameType
from typing import Self


class Interrupted(Exception):
    """A signal ended the run, in good order; says what was saved and how to go on."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interruption:
    """Remembers a signal, for the run to ask after each step; a second Ctrl-C ends it at once."""

    def __enter__(self) -> Self:
        self.number: int | None = None  # of the signal that has come
        self.previous = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self.previous[number] = signal.signal(number, self.handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self.number is not None:
                raise KeyboardInterrupt
            # Not print: the signal may have come in the middle of one.
            os.write(2, b"\nstopping with this step; press Ctrl-C again to stop at once\n")
        self.number = number
