"""The strategies of the papers and of other readers, one file each."""
