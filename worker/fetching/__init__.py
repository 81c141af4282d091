"""Fetches data that nobody attached onto a host: from the web, from Hugging Face, from Kaggle, from its own disk."""
