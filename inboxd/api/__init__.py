"""The plugin's face: how handlers are declared, what they get, what they send.

Owns the types that a plugin author sees, and the JSON that goes in and out of handlers. Promises:
nothing here opens a connection or touches a table; the runtime passes in what does.
"""
