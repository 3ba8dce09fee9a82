"""Actions on files, directories, configuration files, logs and disks."""
