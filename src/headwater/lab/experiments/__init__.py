"""One module per experiment: its runs, its checks and its figure, and the value EXPERIMENT that names them."""
