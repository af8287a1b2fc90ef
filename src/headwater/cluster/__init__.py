"""Several machines as one aggregator: leases, membership and transports."""
