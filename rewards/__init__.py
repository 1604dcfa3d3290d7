"""Rewards for code: one file a channel, text and offsets in, numbers out. Nothing here knows a trainer or a model."""
