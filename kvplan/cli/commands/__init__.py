"""One module a command, each with its click command as `command`."""
