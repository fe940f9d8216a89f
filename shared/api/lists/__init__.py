"""List endpoints: filtering, search, ordering, pagination, and related records with `with`.

A resource subclasses `filters.ListFilterSet`; views use `pagination.PagePagination` or `ArrayPagination`, and
serializers `relations.RelationsSerializer`. `schema` describes all of it in OpenAPI, `text_indexes` creates trigram
indexes.
"""
