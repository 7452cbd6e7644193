"""The receiver of webhooks: what comes in over HTTP is durable before it is answered."""
