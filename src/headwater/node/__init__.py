"""The running aggregator: crawler, query processor, publisher and the buffers between them."""
