"""A device's windows, with a stand-in for torch.cuda whose stream is played by hand. Never run on hardware here."""

from __future__ import annotations

from time import monotonic_ns
from typing import Any

from stepscope.model.segment import BACKWARD, COMMUNICATION, DEVICE, FORWARD
from stepscope.recorder.device import Device


class Cuda:
    """Events pass when `reached` says so; each knows the time at which the device came to it, ms."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reached = 1e9
        self.capturing = False
        self.made = 0
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                cuda.made += 1
                self.at = 0.0

            def record(self, stream: Any = None) -> None:
                self.at = cuda.now

            def query(self) -> bool:
                return self.at <= cuda.reached

            def elapsed_time(self, other: Any) -> float:
                return float(other.at - self.at)

            def synchronize(self) -> None:
                raise AssertionError("never")

        self.Event = Event

    def Stream(self, index: int) -> None:
        assert index == 3

    def current_device(self) -> int:
        return 3

    def is_current_stream_capturing(self) -> bool:
        return self.capturing


def test_windows_are_told_once_the_stream_has_left_them() -> None:
    cuda = Cuda()
    device = Device(cuda, 9)
    cuda.reached = 15.0
    device.begins(FORWARD, 1)
    cuda.now = 10.0
    device.begins(BACKWARD, 2)
    cuda.now = 30.0
    device.ends()
    cuda.now = 12.0
    before = monotonic_ns()
    first = device.passed()
    after = monotonic_ns()
    assert [(row[0], row[1], row[4]) for row in first] == [(DEVICE, FORWARD, 1)]
    assert before - 12_000_000 <= first[0][2] <= after - 12_000_000, "12 ms before the event that laid the clocks"
    assert first[0][3] - first[0][2] == 10_000_000
    assert device.passed() == []
    cuda.reached = 40.0
    (second,) = device.passed()
    assert second[1:] == (BACKWARD, first[0][3], first[0][3] + 20_000_000, 2)


def test_a_wait_interrupts_the_phase() -> None:
    cuda = Cuda()
    device = Device(cuda, 9)
    assert device.standing(lambda: "outside") == "outside"
    device.begins(FORWARD, 1)
    cuda.now = 2.0

    def wait() -> str:
        cuda.now = 5.0
        return device.standing(lambda: "inner")

    assert device.standing(wait) == "inner"
    cuda.now = 9.0
    device.ends()
    rows = device.passed()
    assert [(row[1], row[3] - row[2]) for row in rows] == [(FORWARD, 2_000_000), (COMMUNICATION, 3_000_000), (FORWARD, 4_000_000)]


def test_nothing_is_recorded_into_a_graph_and_events_are_used_again() -> None:
    cuda = Cuda()
    device = Device(cuda, 9)
    cuda.capturing = True
    device.begins(FORWARD, 1)
    device.ends()
    assert cuda.made == 0
    cuda.capturing = False
    for _ in range(100):
        device.begins(FORWARD, 1)
        device.ends()
        device.passed()
    assert cuda.made < 110
