"""What leaves over HTTP: targets are asked, within bounds, and never at an address that may not be.

The handlers here are written as any plugin's are; `inboxd/registry/plugins.py` lays them beside
those of plugins where the settings ask for them.
"""
