"""Pairs of documents: do they belong together?"""
