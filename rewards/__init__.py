"""Rewards for code, one file a channel: text and token offsets in, numbers out.

Channels may import rewards.analysis and envs; they must not import recipes, and know no trainer and no policy.
"""
