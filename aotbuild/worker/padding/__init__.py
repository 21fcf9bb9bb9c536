"""Padding: which axes have the size of a dim (`axes`); does padding change results (`check`)?"""
