"""Decisions while a target is down: the rules of breakers, without any I/O or clock (ADR 25)."""
