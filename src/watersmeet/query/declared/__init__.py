"""What declarations say beside names: event times, sites and their links, views."""
