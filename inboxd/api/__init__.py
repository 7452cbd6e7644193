"""The API of plugins: declarations of handlers, and the objects that handlers use.

Owns the types that a plugin's author sees, and the JSON that goes in and out of handlers. Promises:
nothing here opens a connection or touches a table; the runtime passes in the objects that do.
"""
