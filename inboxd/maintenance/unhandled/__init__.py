"""Rows that no living worker handles: commands, and events in lanes, in lines and in chunks."""
