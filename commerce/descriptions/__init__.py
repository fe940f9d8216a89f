"""Product descriptions written by a language model: what is asked, who is asked, and the drafts that come of it."""
