"""The pages, one module each: a function that gathers what it shows, and the routes."""
