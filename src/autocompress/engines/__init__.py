"""Serving engines: what each can serve, and how one is started, timed and stopped."""
