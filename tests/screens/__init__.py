"""The screens: pages, what they lead to, and what they never show."""
