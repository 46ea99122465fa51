"""What a command shows on the terminal and in its log: messages, progress, reports; and its stop signals."""
