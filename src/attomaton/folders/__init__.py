"""Folders of ours as they lie on the disk: what each one is, how two differ, how to be rid of one."""
