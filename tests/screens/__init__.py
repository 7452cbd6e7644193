"""Tests of the screens: their pages, their links and actions, and the data that they hide."""
