"""Row changes of MySQL as Maxwell and Canal write them: JSON documents, of which a topic has several tables'.

`entries` has the spec's `format`. `maxwell_format` and `canal_format` decode documents to images of rows, and `images`
converts images to rows: an update of the key is a deletion and a row.
"""
