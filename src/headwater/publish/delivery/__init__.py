"""Plans, sends and retries mails, web hooks and notifications."""
