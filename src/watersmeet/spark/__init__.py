"""The engine on Spark; planner, kernel, language and lab do without it."""
