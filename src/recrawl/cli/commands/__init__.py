"""The commands of ``recrawl``, one file each, named after the command."""
