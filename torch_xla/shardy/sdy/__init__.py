"""The same in Shardy's terms, and the plan that has Shardy partition."""
