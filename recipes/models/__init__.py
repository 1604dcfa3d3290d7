"""Policies, critics and tokenizers: loading, LoRA, tiny random models, attention that shares keys between heads.

May import records and cli; must not import sampling or trainers.
"""
