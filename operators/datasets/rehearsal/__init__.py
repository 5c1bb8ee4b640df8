"""Text for rehearsals instead of a crawl: the text of every Python installation, and generated problems."""
