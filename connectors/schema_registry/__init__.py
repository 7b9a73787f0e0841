"""Schema registries that speak Confluent's REST API: `entry` has the settings in a spec, `client` the requests."""
