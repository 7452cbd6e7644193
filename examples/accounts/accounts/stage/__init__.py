"""The demo's stage: targets that misbehave, people who register, a chart and a judge."""
