"""Groups items about one event into stories, across feeds, as they arrive."""
