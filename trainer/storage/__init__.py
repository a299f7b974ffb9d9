"""Objects of an S3 store: data files in.

`local` decides where a location is read from and loads nothing. The other modules load boto3: import them
only where an s3:// URL was given.
"""
