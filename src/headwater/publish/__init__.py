"""Publishes query results: documents, live events, WebSub hub, deliveries, exports."""
