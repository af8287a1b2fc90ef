"""The crawl loop: choose feeds, fetch them, store the results, learn from them."""
