"""The commands for streams at several sites: what each way to join them ships, and all sites run at once."""
