"""Deliveries: plans, sends and retries mails, web hooks and notifications."""
