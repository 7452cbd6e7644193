"""Messages in: a broker's messages become durable events, and are acknowledged only then."""
