"""Pathfinder and Path-X: do two marked ends belong to one snake of dashes?"""
