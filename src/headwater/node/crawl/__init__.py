"""The crawl loop: choose feeds, fetch them, store the results and learn from them."""
