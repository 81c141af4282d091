"""The adapters: chat platforms, cards, the relay of worker events, the command line."""
