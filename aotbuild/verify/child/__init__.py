"""What runs in a child process of `verify`: loading, calling and comparing native code."""
