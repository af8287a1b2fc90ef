"""The running aggregator: crawl, queries, quality and WebSub in one process."""
