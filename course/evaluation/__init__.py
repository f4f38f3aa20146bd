"""Loop A: score completions, summarise them, and compare two runs under the Locked Room's law."""
