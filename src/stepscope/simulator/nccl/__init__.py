"""Layers L5 to L8: how long does a collective take on these links, and which link holds it back?"""
