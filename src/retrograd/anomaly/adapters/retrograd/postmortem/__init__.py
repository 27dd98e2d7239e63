"""Tracing a harm back to its birth, and building the event that reports it."""
