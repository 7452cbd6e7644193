"""The receiver of webhooks: a request is durable before it is answered."""
