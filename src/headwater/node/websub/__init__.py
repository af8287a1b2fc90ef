"""WebSub in a running node: our hub, and our leases at other hubs."""
