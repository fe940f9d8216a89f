"""A shop's products and their variations as CSV files, to download, edit and upload again.

`product_files` and `variation_files` write and read the files; `product_import` and `variation_import` write what they
say, all of it or nothing.
"""
