"""The plugin that the tests' workers load, installed and found as a user's plugin is."""

from inboxd import Handlers

handlers = Handlers("testplugin")
