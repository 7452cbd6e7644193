"""What the demo sets up around the plugin: a mail server, a daemon, people, a judge, a screen."""
