"""Quality of the aggregation: reports, history, targets and explanations of feeds."""
