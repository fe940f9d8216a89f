"""Product descriptions written by a language model: requests, drafts, bulk jobs and the daily quota.

Other apps import `models` and `services`. `text` has prompts and text cleaning, `provider` the clients of the model
server, `jobs` the bulk jobs, and `admin` their pages.
"""
