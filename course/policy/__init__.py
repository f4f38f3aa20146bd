"""Who writes completions: frozen files, the tiny policy, a Hugging Face model."""
