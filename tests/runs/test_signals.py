"""SIGTERM and Ctrl-C become a flag, and the handlers that were there come back."""

import os
import signal
import threading

import pytest

from unetkit import files, runs
from unetkit.runs import StopSignals

ORDINARY = {number: signal.getsignal(number) for number in StopSignals.SIGNALS}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_a_request_and_has_its_exit_status(number, status, capfd):
    with StopSignals() as stop:
        assert not stop.requested and stop.exit_status == 0
        os.kill(os.getpid(), number)
        assert stop.requested and stop.exit_status == status
    assert stop.requested and stop.exit_status == status
    assert {n: signal.getsignal(n) for n in StopSignals.SIGNALS} == ORDINARY
    assert f"{number.name}: stopping after this step; the state will be saved" in capfd.readouterr().err


def test_a_second_signal_does_not_disturb_and_the_first_decides(capfd):
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.exit_status == 143
    assert "still saving" in capfd.readouterr().err


def test_the_third_ctrl_c_stops_at_once_and_handlers_come_back():
    with pytest.raises(KeyboardInterrupt), StopSignals():
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
    assert {n: signal.getsignal(n) for n in StopSignals.SIGNALS} == ORDINARY


def test_any_number_of_sigterms_is_patient():
    with StopSignals() as stop:
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop.exit_status == 143


def test_a_signal_that_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_it_does_nothing():
    seen = []

    def work():
        with StopSignals() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, ORDINARY[signal.SIGTERM])]


def test_an_interrupt_in_the_middle_of_a_save_leaves_it_whole(tmp_path, recipe, arrays, monkeypatch):
    real = files.replacing

    def interrupted(path):
        if path.name == "optimizer.npz":
            os.kill(os.getpid(), signal.SIGINT)
        return real(path)

    monkeypatch.setattr(files, "replacing", interrupted)
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run, StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        run.save(4, 40, arrays(4), {})
        assert stop.exit_status == 130
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert run.start.step == 4 and run.messages == []
