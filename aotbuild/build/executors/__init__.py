"""Where jobs run: worker processes of this machine."""
