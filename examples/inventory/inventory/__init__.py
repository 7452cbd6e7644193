"""Example plugin: a warehouse whose events come twice."""
