"""A report as a table, as JSON, as JUnit's XML and as a page."""
