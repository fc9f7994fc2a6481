// A shared library that is no PJRT plugin.

int NotAPlugin(void);

int NotAPlugin(void) { return 1; }
