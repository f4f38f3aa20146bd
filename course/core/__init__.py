"""Records, files, plug strings, errors and the terminal: what every other room stands on."""
