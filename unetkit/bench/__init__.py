"""Measurements on the user's own machine."""
