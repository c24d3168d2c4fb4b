"""Holds for every test."""

import signal
import threading

# A shell's background jobs start with SIGINT ignored, and children inherit that; tests send it as Ctrl-C would.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
