"""Several machines: who may do what (leases), who fetches which hosts (partitions), and what carries jobs and items."""
