"""Commands on a stopped or running pipeline: repair, rescale, delete, preview, and a start from a savepoint."""
