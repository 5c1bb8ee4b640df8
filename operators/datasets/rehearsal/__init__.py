"""What a rehearsal reads instead of a crawl: text that every Python installation holds, and generated problems."""
